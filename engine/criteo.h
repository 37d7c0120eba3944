#pragma once
// Click-through samples in the public Criteo layout: one sample a line, 40 columns between tabs,
//   label  I1 .. I13  C1 .. C26
// label 0 or 1, I integers, C any text; an empty column is missing.
// Source: Criteo Display Advertising Challenge (Kaggle, 2014), readme.txt.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "core/job.h"
#include "core/program.h"
#include "engine/mapped_file.h"

namespace orrery::engine {

inline constexpr int kCriteoIntegers = 13;
inline constexpr int kCriteoCategories = 26;

/// A file of samples, read by any number of rank threads: reading changes nothing.
class CriteoFile {
 public:
  /// Finds the lines. Category j looks up in `fields[j]`.
  /// @throws ConfigError when it cannot be read or has no sample, or when the model's fields or
  /// dense features are not what the layout has.
  CriteoFile(std::filesystem::path path, std::vector<core::EmbeddingField> fields,
             int dense_features);

  std::int64_t samples() const { return lines_; }

  /// Samples first .. first + count − 1 of an endless repetition of the file:
  ///   dense = log(1 + max(I, 0)), 0 where missing;
  ///   id_j = first row of field j + FNV1a64("j:value") mod rows of field j, j from 0 ("" missing).
  /// labels [count], dense [count, 13], ids [count, 26].
  /// @throws ConfigError naming file and line of a sample that is not in the layout.
  void read(std::int64_t first, std::int64_t count, float* labels, float* dense,
            std::int32_t* ids) const;

 private:
  std::string_view text() const;
  std::size_t start_of(std::int64_t line) const;
  void parse(std::string_view line, std::int64_t number, float* label, float* dense,
             std::int32_t* ids) const;

  std::filesystem::path path_;
  std::vector<core::EmbeddingField> fields_;
  MappedFile file_;
  std::int64_t lines_ = 0;
  std::vector<std::size_t> starts_;  // Of every kStride-th line.
};

/// The file that the job names, for the program's embedding.
/// @throws ConfigError when it names none, or another format; and as CriteoFile does.
std::unique_ptr<CriteoFile> open_samples(const core::Program&, const core::Job&);

}  // namespace orrery::engine
