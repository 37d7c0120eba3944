#include "engine/measured_trace.h"

#include <algorithm>
#include <array>
#include <span>

#include "engine/rank_program.h"

namespace orrery::engine {

namespace {

using core::Bytes;
using core::Seconds;

void add_records(core::TraceBuilder& builder, const core::Program& program, core::Rank rank,
                 const RankResult& result) {
  const RankProgram flat = unroll(program, rank);
  for (const InstructionRecord& record : result.records) {
    const FlatInstruction& instruction =
        flat.instructions[static_cast<std::size_t>(record.instruction)];
    builder.add(rank, {record.step, instruction.call, instruction.index}, Seconds(record.start),
                Seconds(record.start), Seconds(record.end),
                Bytes(static_cast<double>(record.bytes)));
  }
  core::Counter memory;
  memory.name = "live memory";
  memory.unit = "B";
  memory.rank = rank;
  for (const MemorySample& sample : result.memory) {
    memory.time.emplace_back(sample.time);
    memory.value.push_back(static_cast<double>(sample.bytes));
  }
  if (!memory.time.empty()) builder.add_counter(std::move(memory));
}

void add_steps(core::TraceBuilder& builder, const std::vector<RankResult>& results) {
  const std::size_t steps = results.front().step_start.size();
  for (std::size_t s = 0; s < steps; ++s) {
    core::StepInfo step;
    step.start = Seconds(results.front().step_start[s]);
    step.end = Seconds(results.front().step_end[s]);
    for (const RankResult& result : results) {
      step.start = std::min(step.start, Seconds(result.step_start[s]));
      step.end = std::max(step.end, Seconds(result.step_end[s]));
      if (!step.loss && !result.loss.empty()) step.loss = static_cast<double>(result.loss[s]);
    }
    builder.add_step(step);
  }
}

// Every span that takes part moves data only when the last has started.
template <class Spans>
void meet(core::Trace& trace, const Spans& spans) {
  Seconds last;
  for (const std::int32_t span : spans) {
    last = std::max(last, trace.spans[static_cast<std::size_t>(span)].start);
  }
  for (const std::int32_t index : spans) {
    core::Span& span = trace.spans[static_cast<std::size_t>(index)];
    span.transfer = std::min(std::max(span.transfer, last), span.end);
  }
}

void set_transfers(core::Trace& trace) {
  for (const core::Flow& flow : trace.flows) meet(trace, std::array{flow.from_span, flow.to_span});
  for (std::size_t c = 0; c + 1 < trace.collective_begin.size(); ++c) {
    const auto begin = static_cast<std::size_t>(trace.collective_begin[c]);
    const auto end = static_cast<std::size_t>(trace.collective_begin[c + 1]);
    meet(trace, std::span(trace.collective_spans).subspan(begin, end - begin));
  }
}

}  // namespace

core::Trace measured_trace(const core::Program& program, const std::vector<RankResult>& results) {
  core::TraceBuilder builder(program);
  for (std::size_t r = 0; r < results.size(); ++r) {
    add_records(builder, program, core::Rank(r), results[r]);
  }
  add_steps(builder, results);
  core::Trace trace = builder.build(false, {{"plan", program.plan}, {"model", program.model}});
  set_transfers(trace);
  return trace;
}

}  // namespace orrery::engine
