#include "engine/criteo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "engine/fnv1a.h"

namespace orrery::engine {

namespace {

/// Dense features that the program's loading instructions ask for.
int dense_features_of(const core::Program& program) {
  for (const core::Role& role : program.roles) {
    for (const core::Block& block : role.blocks) {
      for (const core::Instruction& instruction : block.instructions) {
        const auto* compute = std::get_if<core::Compute>(&instruction.operation);
        if (compute == nullptr) continue;
        if (const auto* load = std::get_if<core::LoadSamples>(&compute->op)) {
          return load->dense_features;
        }
      }
    }
  }
  return 0;
}

// Lines between two remembered starts: a lookup walks over half of them, 8 bytes remember them all.
constexpr std::int64_t kStride = 64;
constexpr std::size_t kColumns = 1 + kCriteoIntegers + kCriteoCategories;

/// Position after the line that begins at `start`.
std::size_t next_line(std::string_view text, std::size_t start) {
  const void* end = std::memchr(text.data() + start, '\n', text.size() - start);
  if (end == nullptr) return text.size();
  return static_cast<std::size_t>(static_cast<const char*>(end) - text.data()) + 1;
}

/// Columns of a line; the number found where it is not 40.
std::size_t split(std::string_view line, std::array<std::string_view, kColumns>& columns) {
  std::size_t found = 0;
  while (true) {
    const std::size_t tab = line.find('\t');
    if (found < kColumns) columns[found] = line.substr(0, tab);
    ++found;
    if (tab == std::string_view::npos) return found;
    line.remove_prefix(tab + 1);
  }
}

}  // namespace

std::unique_ptr<CriteoFile> open_samples(const core::Program& program, const core::Job& job) {
  if (!job.data) {
    throw core::ConfigError(
        "the job names no data; a click-through model needs [data] with format = \"criteo-tsv\"");
  }
  if (job.data->format != core::DataFormat::CriteoTsv) {
    throw core::ConfigError(job.data->path +
                            ": a click-through model reads data of format \"criteo-tsv\" only");
  }
  return std::make_unique<CriteoFile>(job.data->path, program.embedding.value().fields,
                                      dense_features_of(program));
}

CriteoFile::CriteoFile(std::filesystem::path path, std::vector<core::EmbeddingField> fields,
                       int dense_features)
    : path_(std::move(path)), fields_(std::move(fields)), file_(path_) {
  if (fields_.size() != kCriteoCategories || dense_features != kCriteoIntegers) {
    throw core::ConfigError(fmt::format(
        "{}: the Criteo layout has {} dense features and {} categories, the model {} and {}",
        path_.string(), kCriteoIntegers, kCriteoCategories, dense_features, fields_.size()));
  }
  const std::string_view all = text();
  for (std::size_t start = 0; start < all.size(); start = next_line(all, start)) {
    if (lines_++ % kStride == 0) starts_.push_back(start);
  }
  if (lines_ == 0) {
    throw core::ConfigError(path_.string() + ": has no sample; one a line is expected");
  }
}

std::string_view CriteoFile::text() const {
  const auto bytes = file_.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::size_t CriteoFile::start_of(std::int64_t line) const {
  std::size_t start = starts_[static_cast<std::size_t>(line / kStride)];
  for (std::int64_t k = 0; k < line % kStride; ++k) start = next_line(text(), start);
  return start;
}

void CriteoFile::read(std::int64_t first, std::int64_t count, float* labels, float* dense,
                      std::int32_t* ids) const {
  const std::string_view all = text();
  std::int64_t line = first % lines_;
  std::size_t start = start_of(line);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::size_t next = next_line(all, start);
    std::string_view content = all.substr(start, next - start);
    while (content.ends_with('\n') || content.ends_with('\r')) content.remove_suffix(1);
    parse(content, line + 1, labels + i, dense + i * kCriteoIntegers, ids + i * kCriteoCategories);
    ++line;
    start = next;
    if (line == lines_) line = 0, start = 0;
  }
}

void CriteoFile::parse(std::string_view line, std::int64_t number, float* label, float* dense,
                       std::int32_t* ids) const {
  const auto refuse = [&](const std::string& what) {
    throw core::ConfigError(fmt::format("{}:{}: {}", path_.string(), number, what));
  };
  std::array<std::string_view, kColumns> columns;
  const std::size_t found = split(line, columns);
  if (found != kColumns) {
    refuse(fmt::format("{} columns; {} are expected: a label, {} integers, {} categories", found,
                       kColumns, kCriteoIntegers, kCriteoCategories));
  }
  if (columns[0] != "0" && columns[0] != "1") {
    refuse(fmt::format("label \"{}\"; 0 or 1 is expected", columns[0]));
  }
  *label = columns[0] == "1" ? 1.0F : 0.0F;
  for (int k = 0; k < kCriteoIntegers; ++k) {
    const std::string_view column = columns[static_cast<std::size_t>(1 + k)];
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(column.data(), column.data() + column.size(), value);
    if (!column.empty() && (error != std::errc() || end != column.data() + column.size())) {
      refuse(fmt::format("I{}: \"{}\"; an integer or nothing is expected", k + 1, column));
    }
    dense[k] =
        static_cast<float>(std::log1p(static_cast<double>(std::max<std::int64_t>(value, 0))));
  }
  for (int j = 0; j < kCriteoCategories; ++j) {
    const core::EmbeddingField& field = fields_[static_cast<std::size_t>(j)];
    const std::string_view value = columns[static_cast<std::size_t>(1 + kCriteoIntegers + j)];
    const std::uint64_t hashed = fnv1a(value, fnv1a(fmt::format("{}:", j)));
    ids[j] = static_cast<std::int32_t>(
        field.first_row +
        static_cast<std::int64_t>(hashed % static_cast<std::uint64_t>(field.rows)));
  }
}

}  // namespace orrery::engine
