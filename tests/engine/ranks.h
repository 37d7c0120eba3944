#pragma once
// Runs a function on every rank of an in-process fabric.

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engine/in_process_communicator.h"
#include "engine/rank_run.h"

namespace orrery::engine {

/// Calls body(communicator) on one thread per rank; rethrows the first rank's exception.
inline void on_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  InProcessFabric fabric(ranks);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int r = 0; r < ranks; ++r) communicators.push_back(fabric.communicator(core::Rank(r)));
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < communicators.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        body(*communicators[r]);
      } catch (const std::exception& error) {
        failures[r] = std::current_exception();
        communicators[r]->abort("rank " + std::to_string(r) + ": " + error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

inline void finish(Communicator& communicator, Communicator::Request request) {
  wait_until(communicator, [&] { return communicator.test(request); });
}

}  // namespace orrery::engine
