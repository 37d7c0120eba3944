#pragma once
// Reads the members of one table of a config file, checking type, range, unit and source. Every
// error is a ConfigError "file:line:column: key: what was found, what is allowed".

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/config_value.h"
#include "core/config/quantity.h"

namespace orrery::core {

enum class Sign { Positive, NonNegative };

/// Whether physical constants must say where they come from: in `{ value = ..., source = "..." }`,
/// or by a `source` of a table around them.
enum class Sources { Required, Optional };

/// Allowed values of a dimensionless number, both ends included.
struct Range {
  double least;
  double most;
};

class TableReader {
 public:
  TableReader(std::string file, const ConfigValue& table, Sources sources);

  /// Whether the key is there (JSON's null counts as absent).
  bool has(std::string_view key);

  std::string text(std::string_view key);
  bool boolean(std::string_view key);
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most);
  int count(std::string_view key, int least, int most);
  std::vector<int> counts(std::string_view key, int least, int most);
  std::vector<std::vector<int>> count_lists(std::string_view key, int least, int most);
  std::vector<std::string> texts(std::string_view key);
  /// A number that is no physical constant (a learning rate).
  double number(std::string_view key, Range);

  /// A dimensionless physical constant (an efficiency): `0.9` or `{ value = 0.9, source = "..." }`.
  double constant(std::string_view key, Range);

  /// A quantity: `"450 GB/s"` or `{ value = "450 GB/s", source = "...", between = ["400 GB/s",
  /// "470 GB/s"] }`, where `between` states how uncertain the value is.
  double quantity(std::string_view key, Dimension, Sign);
  template <class Q>
  Q quantity(std::string_view key, Sign sign = Sign::Positive) {
    return Q(quantity(key, dimension_of(Q()), sign));
  }

  /// The value that `names` pairs with the text at `key`.
  template <class T>
  T choice(std::string_view key, const std::vector<std::pair<std::string_view, T>>& names) {
    const std::string found = text(key);
    std::vector<std::string_view> allowed;
    for (const auto& [name, value] : names) {
      if (name == found) return value;
      allowed.push_back(name);
    }
    fail_choice(key, found, allowed);
  }

  bool is_text(std::string_view key);
  TableReader table(std::string_view key);
  std::vector<TableReader> tables(std::string_view key);  ///< An array of tables.
  std::vector<std::string> keys() const;                  ///< Of all members; none is read by this.

  /// @throws ConfigError when the table has members that nothing asked for, naming the nearest key.
  void finish() const;

  /// @throws ConfigError at the position of `key`, or of the table when it is absent.
  [[noreturn]] void fail(std::string_view key, const std::string& why) const;

 private:
  const ConfigValue* find(std::string_view key) const;
  const ConfigValue& require(std::string_view key);
  /// The value within `{ value = ... }`, or the member itself; checks the source.
  const ConfigValue& sourced_value(std::string_view key);
  std::vector<int> counts_in(std::string_view key, const ConfigValue&, int least, int most) const;
  double quantity_of(std::string_view key, const ConfigValue&, Dimension, Sign) const;
  [[noreturn]] void fail_at(const ConfigValue&, std::string_view key, const std::string& why) const;
  [[noreturn]] void fail_kind(std::string_view key, const ConfigValue&, const char* wanted) const;
  [[noreturn]] void fail_choice(std::string_view key, const std::string& found,
                                const std::vector<std::string_view>& allowed) const;
  TableReader nested(std::string_view key, const ConfigValue&) const;
  const ConfigValue::Table& members() const;

  std::string file_;
  const ConfigValue* table_;
  Sources sources_;
  std::string prefix_;           ///< "network." within [network].
  std::set<std::string> known_;  ///< Keys asked for so far.
};

}  // namespace orrery::core
