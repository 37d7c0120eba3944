#include "study/validate/csv_table.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "core/error.h"

namespace orrery::study {
namespace {

/// Fields of one line; nothing where a quote stays open.
std::optional<std::vector<std::string>> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  return fields;
}

}  // namespace

CsvTable::CsvTable(const std::filesystem::path& path) : file_(path.string()) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw core::ConfigError(
        fmt::format("{}: cannot read: {}", file_, file ? "is a directory" : std::strerror(errno)));
  }
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    auto fields = fields_of(line);
    if (!fields) throw core::ConfigError(fmt::format("{}:{}: a quote never ends", file_, number));
    if (columns_.empty()) {
      for (std::size_t c = 0; c < fields->size(); ++c) {
        if (columns_.try_emplace((*fields)[c], c).second) continue;
        throw core::ConfigError(fmt::format("{}:{}: found column \"{}\" twice; allowed: once",
                                            file_, number, (*fields)[c]));
      }
      continue;
    }
    if (fields->size() != columns_.size()) {
      throw core::ConfigError(fmt::format("{}:{}: {} fields, the header names {} columns", file_,
                                          number, fields->size(), columns_.size()));
    }
    rows_.push_back({number, std::move(*fields)});
  }
  if (columns_.empty()) throw core::ConfigError(file_ + ": is empty; a header is expected");
}

const std::string& CsvTable::at(std::size_t row, const std::string& column) const {
  static const std::string kEmpty;
  const auto found = columns_.find(column);
  return found == columns_.end() ? kEmpty : rows_[row].fields[found->second];
}

std::string CsvTable::where(std::size_t row, const std::string& column) const {
  return fmt::format("{}: {}", where(row), column);
}

std::string CsvTable::where(std::size_t row) const {
  return fmt::format("{}:{}", file_, rows_[row].line);
}

}  // namespace orrery::study
