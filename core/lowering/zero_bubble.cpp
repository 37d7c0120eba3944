#include "core/lowering/zero_bubble.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/error.h"

namespace orrery::core {
namespace {

using Passes = std::vector<std::vector<StagePass>>;

/// What the heuristic tries both ways.
struct Choices {
  bool round_up = false;
  bool reserve_for_end = false;
  bool delay_by_weight_grad = false;
};

struct Durations {
  double forward, input_grad, weight_grad, message;
  double of(PassKind kind) const {
    if (kind == PassKind::Forward) return forward;
    return kind == PassKind::WeightGrad ? weight_grad : input_grad;
  }
};

/// How long a schedule keeps its busiest stage, from its first pass to its last; then all stages.
using Length = std::pair<double, double>;

class Scheduler {
 public:
  Scheduler(int stages, int microbatches, const PassTimes& times, int limit)
      : p_(stages),
        m_(microbatches),
        limit_(limit),
        kept_(times.kept),
        d_{times.forward.value, times.input_grad.value, times.weight_grad.value,
           times.message.value},
        tolerance_(1e-9 * (d_.forward + d_.input_grad + d_.weight_grad)) {}

  /// Lays out all passes; false where memory leaves no way on.
  bool run(const Choices& choices) {
    stages_.assign(static_cast<std::size_t>(p_), Stage(m_));
    passes_.assign(static_cast<std::size_t>(p_), {});
    for (int s = 0; s < p_; ++s) stage(s).most_ahead = most_ahead(s, choices);
    std::fill(stage(0).activation.begin(), stage(0).activation.end(), 0.0);
    for (int s = 0; s < p_; ++s) wake(s, 0.0);
    while (const auto s_next = first_awake()) {
      const int s = *s_next;
      const double time = *stage(s).awake;
      stage(s).awake.reset();
      if (const auto kind = choose(stage(s), time, choices)) {
        start(s, *kind, time);
      } else {
        wait(s, time);
      }
    }
    return std::all_of(passes_.begin(), passes_.end(), [this](const auto& passes) {
      return passes.size() == static_cast<std::size_t>(3 * m_);
    });
  }

  /// k of each stage.
  std::vector<int> most_ahead(const Choices& choices) const {
    std::vector<int> all;
    for (int s = 0; s < p_; ++s) all.push_back(most_ahead(s, choices));
    return all;
  }

  Length length() const {
    Length length{0, 0};
    for (const Stage& s : stages_) {
      length.first = std::max(length.first, s.free - s.first);
      length.second = std::max(length.second, s.free);
    }
    return length;
  }
  Passes take() { return std::move(passes_); }

 private:
  struct Stage {
    explicit Stage(int microbatches)
        : activation(static_cast<std::size_t>(microbatches)),
          gradient(static_cast<std::size_t>(microbatches)) {}
    int forwards = 0, input_grads = 0, weight_grads = 0;  ///< Started.
    int most_ahead = 1;                                   ///< k.
    double first = 0, free = 0;   ///< Start of the first pass, end of the latest.
    std::optional<double> awake;  ///< When it chooses next; empty while nothing is known to come.
    std::vector<std::optional<double>> activation, gradient;  ///< Arrivals, by microbatch.
  };

  Stage& stage(int s) { return stages_[static_cast<std::size_t>(s)]; }
  void wake(int s, double time) {
    Stage& woken = stage(s);
    time = std::max(time, woken.free);
    woken.awake = woken.awake ? std::min(*woken.awake, time) : time;
  }
  /// Of equals the first stage.
  std::optional<int> first_awake() const {
    std::optional<int> first;
    double least = 0;
    for (int s = 0; s < p_; ++s) {
      const std::optional<double>& awake = stages_[static_cast<std::size_t>(s)].awake;
      if (!awake || (first && *awake >= least)) continue;
      first = s;
      least = *awake;
    }
    return first;
  }

  /// Microbatches that fit into a stage before its first gradient arrives: the first one passes
  /// through the stages after it and back meanwhile.
  int most_ahead(int s, const Choices& choices) const {
    const int after = p_ - 1 - s;
    const double there_and_back =
        (after + 1) * d_.forward + after * (d_.input_grad + 2 * d_.message);
    const double fit = (there_and_back + tolerance_) / d_.forward;
    const int wanted = static_cast<int>(choices.round_up ? std::ceil(fit - 2e-9) : std::floor(fit));
    // As many as keep the stage busy in the steady state.
    const double period = d_.forward + d_.input_grad + d_.weight_grad;
    const double least = ((after + 1) * (d_.forward + d_.input_grad) + 2 * after * d_.message);
    const int needed = static_cast<int>(std::ceil(least / period - 1e-9));
    const double at_end = std::ceil(s * (d_.input_grad + d_.message) / d_.weight_grad - 1e-9);
    const double reserved = choices.reserve_for_end ? at_end * kept_ : 0.0;
    const int spared = std::max(needed, static_cast<int>(std::floor(limit_ - reserved)));
    return std::max(1, std::min({limit_, wanted, spared}));
  }

  bool has_memory(const Stage& s) const {
    const double held = (s.forwards - s.input_grads) + kept_ * (s.input_grads - s.weight_grads) + 1;
    return held <= limit_ + 1e-9;
  }

  static std::optional<double> arrival(const std::vector<std::optional<double>>& of, int next) {
    return next < static_cast<int>(of.size()) ? of[static_cast<std::size_t>(next)] : std::nullopt;
  }
  bool there(std::optional<double> arrival, double time) const {
    return arrival && *arrival <= time + tolerance_;
  }

  std::optional<double> next_activation(const Stage& s) const {
    if (!has_memory(s) || s.forwards - s.input_grads >= s.most_ahead) return std::nullopt;
    return arrival(s.activation, s.forwards);
  }

  std::optional<PassKind> choose(const Stage& s, double time, const Choices& choices) const {
    const auto gradient = arrival(s.gradient, s.input_grads);
    if (there(gradient, time)) return PassKind::InputGrad;
    const auto activation = next_activation(s);
    if (there(activation, time)) return PassKind::Forward;
    if (s.weight_grads == s.input_grads) return std::nullopt;
    const double end = time + (choices.delay_by_weight_grad ? 0.0 : d_.weight_grad) - tolerance_;
    const bool delays = (gradient && end > *gradient) || (activation && end > *activation);
    if (!delays || (s.forwards < m_ && !has_memory(s))) return PassKind::WeightGrad;
    return std::nullopt;
  }

  void start(int s, PassKind kind, double time) {
    Stage& now = stage(s);
    int& count = kind == PassKind::Forward      ? now.forwards
                 : kind == PassKind::WeightGrad ? now.weight_grads
                                                : now.input_grads;
    const int microbatch = count++;
    auto& passes = passes_[static_cast<std::size_t>(s)];
    if (passes.empty()) now.first = time;
    passes.push_back({kind, microbatch});
    now.free = time + d_.of(kind);
    wake(s, now.free);
    const auto i = static_cast<std::size_t>(microbatch);
    if (kind == PassKind::Forward) {
      if (s + 1 == p_) {
        now.gradient[i] = now.free;
      } else {
        stage(s + 1).activation[i] = now.free + d_.message;
        wake(s + 1, now.free + d_.message);
      }
    } else if (kind == PassKind::InputGrad && s > 0) {
      stage(s - 1).gradient[i] = now.free + d_.message;
      wake(s - 1, now.free + d_.message);
    }
  }

  /// Until the next known arrival; whatever comes later wakes the stage itself.
  void wait(int s, double time) {
    const auto later = [&](std::optional<double> arrival) {
      if (arrival && *arrival > time + tolerance_) wake(s, *arrival);
    };
    later(arrival(stage(s).gradient, stage(s).input_grads));
    later(next_activation(stage(s)));
  }

  int p_, m_, limit_;
  double kept_;
  Durations d_;
  double tolerance_;
  std::vector<Stage> stages_;
  Passes passes_;
};

/// Length of a given order under the same durations.
Length length_of(const Passes& passes, const Durations& d) {
  const std::size_t p = passes.size();
  const std::size_t m = passes.front().size() / 3;
  std::vector<std::vector<std::optional<double>>> up(p), down(p);  // Ends, by stage, microbatch.
  for (std::size_t s = 0; s < p; ++s) {
    up[s].resize(m);
    down[s].resize(m);
  }
  std::vector<double> free(p, 0.0), first(p, 0.0);
  std::vector<std::size_t> next(p, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < p; ++s) {
      for (; next[s] < passes[s].size(); ++next[s], moved = true) {
        const StagePass& pass = passes[s][next[s]];
        const auto i = static_cast<std::size_t>(pass.microbatch);
        double start = free[s];
        const bool forward = pass.kind == PassKind::Forward;
        if (forward ? s > 0 : (pass.kind == PassKind::InputGrad && s + 1 < p)) {
          const auto input = forward ? up[s - 1][i] : down[s + 1][i];
          if (!input) break;
          start = std::max(start, *input + d.message);
        }
        if (next[s] == 0) first[s] = start;
        free[s] = start + d.of(pass.kind);
        if (forward) up[s][i] = free[s];
        if (pass.kind == PassKind::InputGrad) down[s][i] = free[s];
      }
    }
  }
  Length length{0, 0};
  for (std::size_t s = 0; s < p; ++s) {
    length.first = std::max(length.first, free[s] - first[s]);
    length.second = std::max(length.second, free[s]);
  }
  return length;
}

}  // namespace

Passes zero_bubble_passes(int stages, int microbatches, const PassTimes& times, int limit) {
  ORRERY_CHECK(limit >= stages && times.kept <= 1.0, "ZB-H1 fits into the memory");
  Passes best;
  Length shortest{0, 0};
  const auto consider = [&](Passes passes, Length length) {
    if (!best.empty() && !(length < shortest)) return;
    best = std::move(passes);
    shortest = length;
  };
  Passes h1 = pipeline_passes({PipelineSchedule::ZeroBubbleH1, stages, 1, microbatches});
  const Length of_h1 = length_of(h1, {times.forward.value, times.input_grad.value,
                                      times.weight_grad.value, times.message.value});
  consider(std::move(h1), of_h1);
  std::vector<std::vector<int>> tried;
  for (const bool round_up : {false, true}) {
    for (const bool reserve : {false, true}) {
      Scheduler scheduler(stages, microbatches, times, limit);
      std::vector<int> most_ahead = scheduler.most_ahead({round_up, reserve});
      // Both roundings are often the same, and so is what is reserved where memory is ample.
      if (std::find(tried.begin(), tried.end(), most_ahead) != tried.end()) continue;
      tried.push_back(std::move(most_ahead));
      for (const bool delay : {false, true}) {
        if (!scheduler.run({round_up, reserve, delay})) continue;
        const Length length = scheduler.length();
        consider(scheduler.take(), length);
      }
    }
  }
  return best;
}

}  // namespace orrery::core
