#pragma once
// What happened when, on every (rank, stream): one format for simulated and measured runs.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/program.h"
#include "core/units.h"

namespace orrery::core {

/// What a span is, for colours, legends and sums.
enum class SpanKind {
  Load,
  Forward,
  Recompute,
  Backward,
  WeightGrad,
  OptimizerStep,
  TensorCommunication,    ///< Within a tensor group, for a layer's products.
  ContextCommunication,   ///< Between the ranks that share a sequence, for its attention.
  ExpertCommunication,    ///< Rows to the ranks that hold their experts, and back.
  PipelineCommunication,  ///< Activations and gradients between stages.
  ParameterGather,        ///< Parameters just before they are used (ZeRO stage 3).
  DataCommunication,      ///< Gradients reduced, updated parameters gathered, scalars of the step.
  ParameterServer,
  Serve
};
inline constexpr int kSpanKinds = 14;
std::string_view span_kind_name(SpanKind);
bool is_communication(SpanKind);

/// What the communications of a stream serve: each kind has its own streams. Not of Compute and
/// Host, on which none runs (core::check_program).
SpanKind communication_kind(Stream);
/// Of a communication communication_kind() of its stream, of another instruction its pass.
SpanKind span_kind(const Instruction&);

/// One row of spans. A folded simulation runs one rank for many that are identical.
struct Lane {
  Rank rank;
  Stream stream = Stream::Compute;
  std::vector<Rank> also;  ///< Other ranks that this lane stands for.

  bool operator==(const Lane&) const = default;
};

/// An interval on a lane. `start` is when the instruction started (its stream was free and its
/// dependencies had ended); a communication's `transfer` is when its last party had started too, so
/// [start, transfer] is waiting and [transfer, end] moving data.
struct Span {
  std::int32_t lane = 0;
  std::int32_t name = 0;  ///< Into Trace::names: "<operation> <label>", "linear layers.3.mlp.up".
  SpanKind kind = SpanKind::Forward;
  InstructionRef instruction;
  std::optional<std::int32_t> microbatch;
  Seconds start;
  Seconds transfer;
  Seconds end;
  Bytes bytes;  ///< Of a communication; 0 elsewhere.

  bool operator==(const Span&) const = default;
};

/// A dependency that crosses ranks: data sent by one span and received by another. Send → Receive,
/// Push → ServePush, ServePull → Pull (the rows; the keys travel the other way, before).
struct Flow {
  std::int32_t from_span = 0;
  std::int32_t to_span = 0;
  Bytes bytes;

  bool operator==(const Flow&) const = default;
};

/// A sampled quantity: a rank's live memory, a link's utilisation.
struct Counter {
  std::string name;
  std::string unit;
  std::optional<Rank> rank;
  std::vector<Seconds> time;
  std::vector<double> value;  ///< Holds from its time to the next.

  bool operator==(const Counter&) const = default;
};

struct StepInfo {
  Seconds start;
  Seconds end;
  std::optional<double> loss;

  bool operator==(const StepInfo&) const = default;
};

struct Trace {
  bool simulated = true;
  std::map<std::string, std::string> about;  ///< "plan", "model", "cluster", ...
  std::vector<Lane> lanes;                   ///< Sorted by (rank, stream).
  std::vector<std::string> names;
  std::vector<Span> spans;  ///< Sorted by (lane, start), the lane's program order.
  /// Spans that span i waited for: dependencies[dependency_begin[i] .. dependency_begin[i+1]).
  std::vector<std::int64_t> dependency_begin;
  std::vector<std::int32_t> dependencies;
  std::vector<Flow> flows;
  /// Spans of collective c, one per recorded member:
  /// collective_spans[collective_begin[c] .. collective_begin[c+1]).
  std::vector<std::int64_t> collective_begin;
  std::vector<std::int32_t> collective_spans;
  std::vector<Counter> counters;
  std::vector<StepInfo> steps;

  bool operator==(const Trace&) const = default;

  Seconds duration() const;  ///< Latest end of a span.
};

/// Turns per-rank records into a Trace: interns names, sorts, and derives dependencies and flows
/// from the Program. Both interpreters use it.
class TraceBuilder {
 public:
  explicit TraceBuilder(const Program& program) : program_(program) {}

  /// Not thread-safe: give each thread its own records and add them afterwards.
  void add(Rank rank, InstructionRef, Seconds start, Seconds transfer, Seconds end, Bytes);
  /// Says that `rank`'s lanes stand for these ranks too.
  void stands_for(Rank rank, std::vector<Rank> others);
  void add_counter(Counter);
  void add_step(StepInfo);
  Trace build(bool simulated, std::map<std::string, std::string> about);

 private:
  struct Record {
    Rank rank;
    InstructionRef instruction;
    Seconds start, transfer, end;
    Bytes bytes;
  };
  const Program& program_;
  std::vector<Record> records_;
  std::map<Rank, std::vector<Rank>> also_;
  std::vector<Counter> counters_;
  std::vector<StepInfo> steps_;
};

}  // namespace orrery::core
