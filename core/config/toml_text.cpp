#include "core/config/toml_text.h"

#include <cmath>

#include "core/error.h"

namespace orrery::core {

std::string toml_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string toml_number(double value) {
  ORRERY_CHECK(std::isfinite(value), "files hold finite numbers only");
  std::string text = fmt::format("{}", value);  // The shortest that reads back the same.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace orrery::core
