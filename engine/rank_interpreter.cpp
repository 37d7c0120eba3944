#include "engine/rank_interpreter.h"

#include <algorithm>
#include <thread>

#include "core/error.h"
#include "engine/run_operator.h"

namespace orrery::engine {

namespace {

// Random delays are up to this long: several times what a small operator takes, so that every order
// that the dependencies allow can happen.
constexpr double kLongestDelay = 200e-6;

}  // namespace

void RankInterpreter::take_records(std::vector<InstructionRecord>& records,
                                   std::vector<MemorySample>& memory) {
  records = std::move(records_);
  memory = std::move(memory_);
}

RankInterpreter::RankInterpreter(const core::Program& program, const core::Job& job,
                                 core::Rank rank, Communicator& communicator,
                                 const InterpreterOptions& options)
    : program_(unroll(program, rank)),
      job_(job),
      communicator_(communicator),
      options_(options),
      pool_(program_, options.poison) {
  for (const FlatInstruction& flat : program_.instructions) initial_waits_.push_back(flat.waits);
  if (options_.delay_seed) {
    random_.seed(*options_.delay_seed * 1000003U + static_cast<std::uint64_t>(rank.value));
  }
}

double RankInterpreter::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - options_.epoch).count();
}

std::byte* RankInterpreter::run_buffer(core::BufferId buffer) const {
  const auto slot = program_.run_slots[buffer.index()];
  ORRERY_CHECK(slot.has_value(), "buffer " + program_.role->buffers[buffer.index()].name +
                                     " must live throughout the run");
  return pool_.base(*slot);
}

void RankInterpreter::reset() {
  waits_ = initial_waits_;
  finished_ = 0;
  for (StreamState& stream : streams_) {
    stream.cursor = 0;
    stream.running = false;
    draw_delay(stream);
  }
}

void RankInterpreter::run_step(int step, bool record) {
  step_ = step;
  recording_ = record;
  reset();
  if (recording_) sample_memory(now());
  while (finished_ < program_.instructions.size()) {
    held_back_ = false;
    const std::uint64_t seen = communicator_.activity();
    bool progress = poll_running();
    progress |= start_communications();
    progress |= compute_one();
    if (progress) continue;
    if (held_back_) {
      std::this_thread::yield();
    } else {
      communicator_.wait(seen);
    }
  }
}

std::int32_t RankInterpreter::head(const StreamState& state, std::size_t stream) const {
  return program_.streams[stream][state.cursor];
}

// Whether the stream's next instruction is of that kind, and may start by the Program.
bool RankInterpreter::ready(const StreamState& state, std::size_t stream, bool computes) const {
  if (state.running || state.cursor == program_.streams[stream].size()) return false;
  const auto next = static_cast<std::size_t>(head(state, stream));
  return program_.instructions[next].computes == computes && waits_[next] == 0;
}

bool RankInterpreter::delayed(const StreamState& state) {
  if (!options_.delay_seed || now() >= state.not_before) return false;
  held_back_ = true;
  return true;
}

void RankInterpreter::draw_delay(StreamState& state) {
  if (!options_.delay_seed) return;
  state.not_before = now() + std::uniform_real_distribution<double>(0.0, kLongestDelay)(random_);
}

bool RankInterpreter::poll_running() {
  bool progress = false;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    StreamState& state = streams_[s];
    if (!state.running || !state.lane.poll(communicator_)) continue;
    state.running = false;
    finish(s, head(state, s), recording_ ? now() : 0.0);
    progress = true;
  }
  return progress;
}

bool RankInterpreter::start_communications() {
  bool progress = false;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    StreamState& state = streams_[s];
    if (!ready(state, s, false) || delayed(state)) continue;
    const FlatInstruction& flat = program_.instructions[static_cast<std::size_t>(head(state, s))];
    if (recording_) state.start = now();
    progress = true;
    bind(flat, state);
    state.lane.start(*flat.source, context_of(flat, state), communicator_);
    state.running = true;
  }
  return progress;
}

// Runs the ready compute instruction that comes first in the Program (any, under random delays).
bool RankInterpreter::compute_one() {
  std::optional<std::size_t> chosen;
  int candidates = 0;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    if (!ready(streams_[s], s, true) || delayed(streams_[s])) continue;
    ++candidates;
    const bool better =
        !chosen ||
        (options_.delay_seed ? std::uniform_int_distribution<int>(1, candidates)(random_) == 1
                             : head(streams_[s], s) < head(streams_[*chosen], *chosen));
    if (better) chosen = s;
  }
  if (!chosen) return false;
  StreamState& state = streams_[*chosen];
  const std::int32_t instruction = head(state, *chosen);
  const FlatInstruction& flat = program_.instructions[static_cast<std::size_t>(instruction)];
  if (recording_) state.start = now();
  bind(flat, state);
  run_operator(std::get<core::Compute>(flat.source->operation).op, context_of(flat, state));
  finish(*chosen, instruction, recording_ ? now() : 0.0);
  return true;
}

// Addresses of the operands; what is written becomes live.
void RankInterpreter::bind(const FlatInstruction& flat, StreamState& state) {
  const auto operand = [&](const FlatOperand& from, std::byte* base) {
    const int element = program_.slots[static_cast<std::size_t>(from.slot)].element_bytes;
    return Operand{base + from.first * element, from.first, from.count, element};
  };
  state.reads.clear();
  state.writes.clear();
  const std::int64_t before = pool_.live_bytes();
  for (const FlatOperand& write : program_.writes(flat)) {
    state.writes.push_back(operand(write, pool_.acquire(write.slot)));
  }
  for (const FlatOperand& read : program_.reads(flat)) {
    std::byte* base = pool_.base(read.slot);
    if (base == nullptr) {
      const BufferSlot& slot = program_.slots[static_cast<std::size_t>(read.slot)];
      throw core::SystemError("unsound program: " + flat.source->label + " (call " +
                              std::to_string(flat.call) + ") reads buffer " +
                              program_.role->buffers[slot.buffer.index()].name +
                              " when it is not live");
    }
    state.reads.push_back(operand(read, base));
  }
  if (recording_ && pool_.live_bytes() != before) sample_memory(state.start);
}

OperatorContext RankInterpreter::context_of(const FlatInstruction& flat, const StreamState& state) {
  return {.program = program_,
          .job = job_,
          .workspace = workspace_,
          .tensor_position = program_.position(program_.role->tensor_group),
          .context_position = program_.position(program_.role->context_group),
          .data = options_.data,
          .step = step_,
          .microbatch = flat.microbatch,
          .reads = state.reads,
          .writes = state.writes};
}

void RankInterpreter::finish(std::size_t stream, std::int32_t instruction, double end) {
  const FlatInstruction& flat = program_.instructions[static_cast<std::size_t>(instruction)];
  StreamState& state = streams_[stream];
  if (recording_) {
    const std::int64_t bytes = flat.computes ? 0 : state.lane.bytes_moved();
    records_.push_back({step_, instruction, state.start, end, bytes});
  }
  for (std::int32_t i = flat.successors.begin; i < flat.successors.end; ++i) {
    --waits_[static_cast<std::size_t>(program_.successors[static_cast<std::size_t>(i)])];
  }
  for (std::int32_t i = flat.frees.begin; i < flat.frees.end; ++i) {
    pool_.release(program_.freed[static_cast<std::size_t>(i)]);
  }
  if (recording_ && flat.frees.begin != flat.frees.end) sample_memory(end);
  ++state.cursor;
  ++finished_;
  draw_delay(state);
}

void RankInterpreter::sample_memory(double time) { memory_.push_back({time, pool_.live_bytes()}); }

}  // namespace orrery::engine
