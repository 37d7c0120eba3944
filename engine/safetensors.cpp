#include "engine/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/config/atomic_file.h"
#include "core/error.h"

namespace orrery::engine {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

constexpr std::size_t kLengthBytes = 8;
// The format's own limit on the header.
constexpr std::uint64_t kLargestHeader = 100'000'000;

std::int64_t element_bytes(const std::string& dtype) {
  static const std::map<std::string, std::int64_t> kBytes = {
      {"F64", 8},  {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4}, {"U32", 4}, {"F16", 2},
      {"BF16", 2}, {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}};
  const auto found = kBytes.find(dtype);
  return found == kBytes.end() ? 0 : found->second;
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) {
      throw core::ConfigError("impossible shape");
    }
  }
  return count;
}

TensorView tensor_view(const json& entry, std::span<const std::byte> data) {
  TensorView view;
  view.dtype = entry.at("dtype").get<std::string>();
  view.shape = entry.at("shape").get<std::vector<std::int64_t>>();
  const auto range = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
  if (range.size() != 2 || range[0] > range[1]) throw core::ConfigError("impossible data_offsets");
  if (range[1] > data.size()) {
    throw core::ConfigError("its data end at byte " + std::to_string(range[1]) +
                            " of the data, but the file holds " + std::to_string(data.size()) +
                            ": the file is cut off");
  }
  const std::int64_t element = element_bytes(view.dtype);
  if (element == 0) throw core::ConfigError("unknown dtype \"" + view.dtype + "\"");
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(product(view.shape), element, &bytes) ||
      static_cast<std::uint64_t>(bytes) != range[1] - range[0]) {
    throw core::ConfigError("its shape and dtype do not give the bytes of its data_offsets");
  }
  view.bytes = data.subspan(range[0], range[1] - range[0]);
  return view;
}

std::string header_of(const std::vector<NamedTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::uint64_t end = offset + tensor.values.size() * sizeof(float);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  return text;
}

}  // namespace

std::int64_t TensorView::elements() const { return product(shape); }

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  parse();
}

void SafetensorsFile::parse() {
  const std::span<const std::byte> bytes = file_.bytes();
  const auto fail = [&](const std::string& what) -> void {
    throw core::ConfigError(path_.string() + ": " + what);
  };
  if (bytes.size() < kLengthBytes) {
    fail("not a safetensors file: " + std::to_string(bytes.size()) + " bytes, fewer than 8");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kLargestHeader) fail("not a safetensors file: impossible header length");
  if (length > bytes.size() - kLengthBytes) {
    fail("the header has " + std::to_string(length) + " bytes, but the file ends after " +
         std::to_string(bytes.size() - kLengthBytes) + ": the file is cut off");
  }
  const char* text = reinterpret_cast<const char*>(bytes.data() + kLengthBytes);
  const json header = json::parse(text, text + length, nullptr, false);
  if (!header.is_object()) fail("the header is not a JSON object");
  for (const auto& [name, entry] : header.items()) {
    try {
      if (name == "__metadata__") {
        metadata_ = entry.get<std::map<std::string, std::string>>();
      } else {
        tensors_.emplace(name, tensor_view(entry, bytes.subspan(kLengthBytes + length)));
      }
    } catch (const std::exception& error) {
      fail("\"" + name + "\": " + error.what());
    }
  }
}

const TensorView& SafetensorsFile::typed(const std::string& name, const std::string& dtype) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw core::ConfigError(path_.string() + ": no tensor \"" + name + "\" among its " +
                            std::to_string(tensors_.size()));
  }
  if (found->second.dtype != dtype) {
    throw core::ConfigError(path_.string() + ": \"" + name + "\" is " + found->second.dtype + ", " +
                            dtype + " is needed");
  }
  return found->second;
}

namespace {

// The format aligns the data to 8 bytes, and every file with 4-byte tensors only keeps them
// aligned.
template <class Element>
std::span<const Element> elements_of(const TensorView& view, const std::filesystem::path& path) {
  if (reinterpret_cast<std::uintptr_t>(view.bytes.data()) % alignof(Element) != 0) {
    throw core::ConfigError(path.string() + ": a tensor's data are not aligned");
  }
  return {reinterpret_cast<const Element*>(view.bytes.data()), view.bytes.size() / sizeof(Element)};
}

}  // namespace

std::span<const float> SafetensorsFile::floats(const std::string& name) const {
  return elements_of<float>(typed(name, "F32"), path_);
}

std::span<const std::int32_t> SafetensorsFile::ints(const std::string& name) const {
  return elements_of<std::int32_t>(typed(name, "I32"), path_);
}

const std::vector<std::int64_t>& SafetensorsFile::shape(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw core::ConfigError(path_.string() + ": no tensor \"" + name + "\"");
  }
  return found->second.shape;
}

void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  for (const NamedTensor& tensor : tensors) {
    ORRERY_CHECK(product(tensor.shape) == static_cast<std::int64_t>(tensor.values.size()),
                 "the shape of " + tensor.name + " does not fit its values");
  }
  const std::string header = header_of(tensors, metadata);
  const std::uint64_t length = header.size();
  std::vector<std::string_view> pieces = {{reinterpret_cast<const char*>(&length), kLengthBytes},
                                          header};
  for (const NamedTensor& tensor : tensors) {
    pieces.emplace_back(reinterpret_cast<const char*>(tensor.values.data()),
                        tensor.values.size() * sizeof(float));
  }
  core::write_file_atomically(path, pieces);
}

}  // namespace orrery::engine
