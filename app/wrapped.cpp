#include "app/wrapped.h"

#include <algorithm>

namespace orrery::app {

std::string wrapped(const std::string& words, std::size_t indent) {
  constexpr std::size_t kColumns = 100;
  const std::string margin(indent, ' ');
  std::string lines;
  std::string line = margin;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    const std::string word = words.substr(at, end - at);
    if (line.size() > indent && line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line = margin;
    }
    line += (line.size() > indent ? " " : "") + word;
    at = end + 1;
  }
  return lines + line + "\n";
}

}  // namespace orrery::app
