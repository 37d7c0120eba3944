#pragma once
// Tables of text for a terminal of 100 columns.

#include <string>
#include <vector>

namespace orrery::app {

/// Columns as wide as their widest cell, two spaces apart. The first column is aligned left, the
/// others right. Cells beyond the width of the table's 100 columns are not broken: keep them short.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : head_(std::move(head)) {}

  /// One cell for each column of the head.
  void add(std::vector<std::string> row);

  std::size_t rows() const { return rows_.size(); }
  std::string text() const;

 private:
  std::vector<std::string> head_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace orrery::app
