#pragma once
// A table of comma-separated values with a header, as published measurements come.

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace orrery::study {

/// Lines that begin with '#' are comments; the first other line names the columns. A field may be
/// quoted with '"', within which '""' is one '"'.
class CsvTable {
 public:
  /// @throws ConfigError "file: cannot read: why", "file:line: ..." for a row of another width than
  /// the header, a column named twice, an empty file or a quote that never ends.
  explicit CsvTable(const std::filesystem::path&);

  std::size_t rows() const { return rows_.size(); }
  /// By name.
  const std::map<std::string, std::size_t>& columns() const { return columns_; }
  bool has(const std::string& column) const { return columns_.count(column) > 0; }
  /// The field's text; empty where the table has no such column.
  const std::string& at(std::size_t row, const std::string& column) const;
  /// "file:line: column", for messages about a field.
  std::string where(std::size_t row, const std::string& column) const;
  /// "file:line".
  std::string where(std::size_t row) const;

 private:
  struct Row {
    std::size_t line;
    std::vector<std::string> fields;
  };
  std::string file_;
  std::map<std::string, std::size_t> columns_;
  std::vector<Row> rows_;
};

}  // namespace orrery::study
