#pragma once
// Paragraphs for a terminal.

#include <cstddef>
#include <string>

namespace orrery::app {

/// The words in lines of at most 100 columns, each indented and ended.
std::string wrapped(const std::string& words, std::size_t indent);

}  // namespace orrery::app
