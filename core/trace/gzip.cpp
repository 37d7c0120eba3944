#include "core/trace/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "core/error.h"

namespace orrery::core {

namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib.h: the largest window, plus 16 for a gzip header.
constexpr std::size_t kPiece = 1 << 20;

Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
}

}  // namespace

std::string gzip(std::string_view text) {
  z_stream stream{};
  ORRERY_CHECK(
      deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, 9, Z_DEFAULT_STRATEGY) == Z_OK,
      "zlib cannot start");
  std::string out;
  std::string piece(kPiece, '\0');
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0 && !text.empty()) {
      const std::size_t n = std::min(text.size(), kPiece);
      stream.next_in = bytes_of(text);
      stream.avail_in = static_cast<uInt>(n);
      text.remove_prefix(n);
    }
    stream.next_out = bytes_of(piece);
    stream.avail_out = static_cast<uInt>(piece.size());
    status = deflate(&stream, text.empty() ? Z_FINISH : Z_NO_FLUSH);
    out.append(piece, 0, piece.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

std::string gunzip(std::string_view data, const std::string& path, std::size_t at_most) {
  z_stream stream{};
  ORRERY_CHECK(inflateInit2(&stream, kGzipWindow) == Z_OK, "zlib cannot start");
  std::string out;
  std::string piece(kPiece, '\0');
  int status = Z_OK;
  while (status == Z_OK) {
    if (stream.avail_in == 0) {
      if (data.empty()) break;
      const std::size_t n = std::min(data.size(), kPiece);
      stream.next_in = bytes_of(data);
      stream.avail_in = static_cast<uInt>(n);
      data.remove_prefix(n);
    }
    stream.next_out = bytes_of(piece);
    stream.avail_out = static_cast<uInt>(piece.size());
    status = inflate(&stream, Z_NO_FLUSH);
    out.append(piece, 0, piece.size() - stream.avail_out);
    if (out.size() > at_most) break;
  }
  inflateEnd(&stream);
  if (out.size() > at_most) {
    throw ConfigError(fmt::format("{}: unpacks to more than {} bytes", path, at_most));
  }
  if (status == Z_OK || status == Z_BUF_ERROR) {
    throw ConfigError(path + ": the gzip data are cut off");
  }
  if (status != Z_STREAM_END) throw ConfigError(path + ": not gzip data, or damaged");
  return out;
}

}  // namespace orrery::core
