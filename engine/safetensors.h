#pragma once
// Safetensors files: 8 bytes little-endian length of the header, the header (JSON), the tensors'
// bytes. Source: huggingface/safetensors, README "Format".

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/mapped_file.h"

namespace orrery::engine {

/// One tensor of a file. The bytes lie in the file's memory.
struct TensorView {
  std::string dtype;  ///< "F32", "I32", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::int64_t elements() const;
};

/// A safetensors file mapped into memory. Tensors may be read from several threads.
class SafetensorsFile {
 public:
  /// @throws ConfigError, naming the file and what is wrong, when it cannot be read, is cut off or
  /// its header is not what the format says.
  explicit SafetensorsFile(const std::filesystem::path&);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return path_; }

  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// @throws ConfigError naming file and tensor when it is missing or not of that type.
  std::span<const float> floats(const std::string& name) const;
  std::span<const std::int32_t> ints(const std::string& name) const;
  const std::vector<std::int64_t>& shape(const std::string& name) const;

 private:
  const TensorView& typed(const std::string& name, const std::string& dtype) const;
  void parse();

  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// A float32 tensor to be written.
struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// Writes the tensors in the order of their names: to a file beside `path`, then renamed, so that
/// no half-written file is ever seen under that name.
/// @throws SystemError when it cannot be written; what was begun is removed.
void write_safetensors(const std::filesystem::path& path, std::vector<NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace orrery::engine
