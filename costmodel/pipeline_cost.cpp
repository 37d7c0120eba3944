#include "costmodel/pipeline_cost.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/lowering/pipeline_schedule.h"

namespace orrery::costmodel {
namespace {

using core::Seconds;

class Replay {
 public:
  Replay(core::PipelineSchedule schedule, const PipelineStages& stages, int microbatches)
      : stages_(stages) {
    const int p = static_cast<int>(stages.forward.size());
    lines_.resize(stages.forward.size());
    auto passes = core::pipeline_passes({schedule, p, 1, microbatches});
    for (int s = 0; s < p; ++s) {
      Line& line = lines_[static_cast<std::size_t>(s)];
      line.passes = std::move(passes[static_cast<std::size_t>(s)]);
      line.sent.resize(line.passes.size());
      line.place[0].resize(static_cast<std::size_t>(microbatches));
      line.place[1].resize(static_cast<std::size_t>(microbatches));
      for (std::size_t i = 0; i < line.passes.size(); ++i) {
        line.place[is_forward(line.passes[i]) ? 1 : 0][microbatch(line.passes[i])] = i;
      }
    }
  }

  std::vector<Seconds> finish() {
    // Up and down in turn, as messages go.
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < lines_.size(); ++s) moved |= advance(s);
      for (std::size_t s = lines_.size(); s-- > 0;) moved |= advance(s);
    }
    std::vector<Seconds> ends;
    for (const Line& line : lines_) {
      ORRERY_CHECK(line.end.size() == line.passes.size(), "a schedule that does not end");
      ends.push_back(line.end.back());
    }
    return ends;
  }

 private:
  /// One stage's passes in order, as far as they are known.
  struct Line {
    std::vector<core::StagePass> passes;
    std::vector<std::size_t> place[2];         ///< By direction (forward = 1) and microbatch.
    std::vector<Seconds> end;                  ///< Of the passes done.
    std::vector<std::optional<Seconds>> sent;  ///< Arrival of what each pass sends.
    Seconds channel[2];                        ///< Arrival of the latest message sent.
  };

  static bool is_forward(const core::StagePass& pass) {
    return pass.kind == core::PassKind::Forward;
  }
  static std::size_t microbatch(const core::StagePass& pass) {
    return static_cast<std::size_t>(pass.microbatch);
  }

  /// The stage that a pass's result goes to, or that its input comes from.
  std::optional<std::size_t> neighbour(std::size_t s, bool up) const {
    if (up) return s + 1 < lines_.size() ? std::optional(s + 1) : std::nullopt;
    return s > 0 ? std::optional(s - 1) : std::nullopt;
  }

  bool advance(std::size_t s) {
    bool moved = false;
    Line& line = lines_[s];
    while (line.end.size() < line.passes.size() && step(s, line)) moved = true;
    return moved;
  }

  /// Runs the next pass of a stage if everything it waits for is known.
  bool step(std::size_t s, Line& line) {
    const std::size_t i = line.end.size();
    const core::StagePass pass = line.passes[i];
    Seconds start = i == 0 ? stages_.begin[s] : line.end[i - 1];
    if (i >= 2 && neighbour(s, is_forward(line.passes[i - 2]))) {
      const auto gone = arrival(s, i - 2);
      if (!gone) return false;
      start = std::max(start, *gone);
    }
    Seconds input;
    if (const auto from = neighbour(s, !is_forward(pass))) {
      const auto got =
          arrival(*from, lines_[*from].place[is_forward(pass) ? 1 : 0][microbatch(pass)]);
      if (!got) return false;
      input = *got;
    }
    const Seconds ahead = is_forward(pass) ? Seconds(0) : stages_.ahead[s];
    const Seconds whole = is_forward(pass) ? stages_.forward[s] : stages_.backward[s];
    line.end.push_back(std::max(start + ahead, input) + (whole - ahead));
    return true;
  }

  /// When the message of pass i of stage s arrives; absent while unknown.
  std::optional<Seconds> arrival(std::size_t s, std::size_t i) {
    Line& line = lines_[s];
    if (line.sent[i]) return line.sent[i];
    if (i >= line.end.size()) return std::nullopt;
    const core::StagePass pass = line.passes[i];
    const std::size_t direction = is_forward(pass) ? 1 : 0;
    const std::size_t to = *neighbour(s, is_forward(pass));
    const Line& receiver = lines_[to];
    const std::size_t needed_by = receiver.place[direction][microbatch(pass)];
    Seconds posted;
    if (needed_by >= 2) {
      if (needed_by - 2 >= receiver.end.size()) return std::nullopt;
      posted = receiver.end[needed_by - 2];
    } else if (needed_by == 1) {
      posted = stages_.begin[to];
    }
    // Messages of one direction are asked for in their order, so the channel is up to date.
    const Seconds moves = std::max({line.end[i], posted, line.channel[direction]});
    line.channel[direction] = moves + stages_.message[std::min(s, to)];
    return line.sent[i] = line.channel[direction];
  }

  const PipelineStages& stages_;
  std::vector<Line> lines_;
};

}  // namespace

std::vector<Seconds> pipeline_finish(core::PipelineSchedule schedule, const PipelineStages& stages,
                                     int microbatches) {
  const int p = static_cast<int>(stages.forward.size());
  const int near = std::max(2 * p, 32);
  const int far = near + std::max(p, 64);
  constexpr int kReplayed = 4096;  // Pairs of passes that cost well below a millisecond.
  if (microbatches <= far || microbatches <= kReplayed / p)
    return Replay(schedule, stages, microbatches).finish();
  const std::vector<Seconds> at_near = Replay(schedule, stages, near).finish();
  std::vector<Seconds> ends = Replay(schedule, stages, far).finish();
  for (std::size_t s = 0; s < ends.size(); ++s) {
    ends[s] += (ends[s] - at_near[s]) * (static_cast<double>(microbatches - far) / (far - near));
  }
  return ends;
}

}  // namespace orrery::costmodel
