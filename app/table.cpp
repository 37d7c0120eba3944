#include "app/table.h"

#include <algorithm>

#include "core/error.h"

namespace orrery::app {
namespace {

// Columns on a terminal: code points, as every character we print is one column wide.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

void append_row(std::string& text, const std::vector<std::string>& row,
                const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t c = 0; c < row.size(); ++c) {
    const std::string padding(widths[c] - width_of(row[c]), ' ');
    if (c > 0) line += "  ";
    line += c == 0 ? row[c] + padding : padding + row[c];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  text += line + "\n";
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  ORRERY_CHECK(row.size() == head_.size(), "a table's rows have one cell for each column");
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < head_.size(); ++c) {
    std::size_t width = width_of(head_[c]);
    for (const auto& row : rows_) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  std::string text;
  append_row(text, head_, widths);
  for (const auto& row : rows_) append_row(text, row, widths);
  return text;
}

}  // namespace orrery::app
