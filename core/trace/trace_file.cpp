#include "core/trace/trace_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "core/config/atomic_file.h"
#include "core/error.h"
#include "core/trace/gzip.h"
#include "core/trace/trace_chrome.h"
#include "core/trace/trace_columns.h"
#include "core/trace/trace_hdf5.h"

namespace orrery::core {

namespace {

enum class Format { Hdf5, ChromeJson, ChromeJsonGzip };

Format format_of(const std::filesystem::path& path) {
  if (path.extension() == ".json") return Format::ChromeJson;
  if (path.extension() == ".gz" && path.stem().extension() == ".json") {
    return Format::ChromeJsonGzip;
  }
  return Format::Hdf5;
}

/// A file that is named but cannot be read is bad input, like one that is damaged.
void check_readable(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    throw ConfigError(path.string() + ": not a regular file, a trace file is expected");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw ConfigError(fmt::format("{}: cannot be read: {}", path.string(),
                                  std::generic_category().message(errno)));
  }
  if (file.peek() == std::ifstream::traits_type::eof()) {
    throw ConfigError(path.string() + ": the file is empty, a trace is expected");
  }
}

constexpr std::size_t kLargestJson = 0xFFFF'FFFF;  // simdjson's largest document.

std::string read_json(const std::filesystem::path& path) {
  return read_whole_file(path, kLargestJson);
}

Trace parse(const std::filesystem::path& path) {
  switch (format_of(path)) {
    case Format::Hdf5:
      return trace_from_hdf5(path);
    case Format::ChromeJson:
      return trace_from_chrome_json(read_json(path), path.string());
    case Format::ChromeJsonGzip:
      return trace_from_chrome_json(gunzip(read_json(path), path.string(), kLargestJson),
                                    path.string());
  }
  check_failed("Format", "no such format", __FILE__, __LINE__);
}

}  // namespace

void check_trace_name(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto ends_in = [&](std::string_view ending) {
    return name.size() > ending.size() && name.ends_with(ending);
  };
  if (std::any_of(kTraceEndings.begin(), kTraceEndings.end(), ends_in)) return;
  throw ConfigError(
      fmt::format("{}: a trace's name ends in {}", path.string(), fmt::join(kTraceEndings, ", ")));
}

void write_trace(const Trace& trace, const std::filesystem::path& path) {
  check_trace_name(path);
  switch (format_of(path)) {
    case Format::Hdf5:
      return write_file_atomically(path, trace_to_hdf5(trace));
    case Format::ChromeJson:
      return write_file_atomically(path, trace_to_chrome_json(trace));
    case Format::ChromeJsonGzip:
      return write_file_atomically(path, gzip(trace_to_chrome_json(trace)));
  }
}

Trace read_trace(const std::filesystem::path& path) {
  check_readable(path);
  Trace trace = parse(path);
  if (const auto why = why_inconsistent(trace)) {
    throw ConfigError(fmt::format("{}: a damaged trace: {}", path.string(), *why));
  }
  return trace;
}

}  // namespace orrery::core
