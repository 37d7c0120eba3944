#pragma once
// What is worked out once for each key, by whichever thread asks first.

#include <map>
#include <mutex>
#include <utility>

namespace orrery::costmodel {

/// Safe to use from several threads; what it has for a key stays where it is.
template <class Key, class Value>
class KeptByKey {
 public:
  /// What it has for the key, by `make` where it has nothing yet. That is called outside the lock: two
  /// threads may do so at once, and the first one's is kept.
  template <class Make>
  const Value& of(const Key& key, Make make) const {
    {
      const std::lock_guard lock(mutex_);
      const auto found = map_.find(key);
      if (found != map_.end()) return found->second;
    }
    Value made = make();
    const std::lock_guard lock(mutex_);
    return map_.try_emplace(key, std::move(made)).first->second;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<Key, Value> map_;
};

}  // namespace orrery::costmodel
