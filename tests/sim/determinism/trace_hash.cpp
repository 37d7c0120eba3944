// Prints a hash of every value of some simulated traces. Built twice, with and without
// optimisation; tests/sim/determinism_test.cpp compares what they print.

#include <cstdio>
#include <cstring>

#include "sim/simulate.h"
#include "tests/sim/lowered_programs.h"

namespace {

using namespace orrery;
using namespace core::literals;

/// FNV-1a. Source: Fowler, Noll, Vo; IETF draft-eastlake-fnv.
class Hash {
 public:
  template <class T>
  void add(const T& value) {
    unsigned char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    for (const unsigned char byte : bytes) state_ = (state_ ^ byte) * 0x100000001b3ULL;
  }
  unsigned long long state() const { return state_; }

 private:
  unsigned long long state_ = 0xcbf29ce484222325ULL;
};

void add_trace(Hash& hash, const core::Trace& trace) {
  for (const core::Span& s : trace.spans) {
    hash.add(s.lane);
    hash.add(s.name);
    hash.add(s.instruction.step);
    hash.add(s.instruction.call);
    hash.add(s.instruction.index);
    hash.add(s.start.value);
    hash.add(s.transfer.value);
    hash.add(s.end.value);
    hash.add(s.bytes.value);
  }
  for (const core::Flow& f : trace.flows) {
    hash.add(f.from_span);
    hash.add(f.to_span);
  }
  for (const std::int32_t d : trace.dependencies) hash.add(d);
  for (const core::Counter& c : trace.counters) {
    for (const core::Seconds t : c.time) hash.add(t.value);
    for (const double v : c.value) hash.add(v);
  }
}

core::DensePlan plan_of(int data, int tensor, int pipeline) {
  core::DensePlan plan;
  plan.data = data;
  plan.tensor = tensor;
  plan.pipeline = pipeline;
  return plan;
}

}  // namespace

int main() {
  Hash hash;
  sim::SimulateOptions options;
  options.steps = 2;
  for (const bool delayed : {false, true}) {
    if (delayed) options.delays = sim::RandomDelays{11, 30.0_us};
    for (const core::DensePlan& plan : {plan_of(2, 4, 2), plan_of(8, 1, 2), plan_of(4, 2, 2)}) {
      const core::Cluster cluster = sim::gpu_cluster(4, 4, 2);
      const core::Program program = sim::lowered_gpt2(plan, 4, 6, cluster);
      add_trace(hash,
                sim::simulate(program, sim::varied_durations(program, 10.0_us), cluster, options));
    }
    const core::Cluster cpus = sim::cpu_node(5);
    const core::Program sparse = sim::lowered_deepfm(3, 2, cpus);
    add_trace(hash, sim::simulate(sparse, sim::varied_durations(sparse, 10.0_us), cpus, options));
  }
  std::printf("%016llx\n", hash.state());
  return 0;
}
