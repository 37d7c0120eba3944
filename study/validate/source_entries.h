#pragma once
// Entries of machines.toml and frameworks.toml: each is about a name, and one that lists `sources`
// about the steps of those alone.

#include <algorithm>
#include <string>
#include <vector>

namespace orrery::study {

template <class Entry>
bool lists(const Entry& entry, const std::string& source) {
  return std::find(entry.sources.begin(), entry.sources.end(), source) != entry.sources.end();
}

/// Whether two entries of one name are about the same steps.
template <class Entry>
bool about_the_same(const Entry& a, const Entry& b) {
  if (a.sources.empty() || b.sources.empty()) return a.sources.empty() && b.sources.empty();
  return std::any_of(a.sources.begin(), a.sources.end(),
                     [&](const std::string& source) { return lists(b, source); });
}

/// The entry of that name that lists the source, else the one that lists none; null without either.
template <class Entry>
const Entry* entry_of(const std::vector<Entry>& entries, std::string Entry::*name,
                      const std::string& wanted, const std::string& source) {
  const Entry* found = nullptr;
  for (const Entry& entry : entries) {
    if (entry.*name != wanted) continue;
    if (lists(entry, source)) return &entry;
    if (entry.sources.empty()) found = &entry;
  }
  return found;
}

}  // namespace orrery::study
