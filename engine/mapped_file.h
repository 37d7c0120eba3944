#pragma once
// A file's bytes as memory.

#include <cstddef>
#include <filesystem>
#include <span>

namespace orrery::engine {

/// A file mapped read-only. Its memory stays where it is when the object is moved.
class MappedFile {
 public:
  /// @throws ConfigError with the system's words when it cannot be opened, is no file, or cannot be
  /// mapped: a file that is named but cannot be read is bad input.
  explicit MappedFile(const std::filesystem::path&);
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  void release();

  std::span<const std::byte> bytes_;
};

}  // namespace orrery::engine
