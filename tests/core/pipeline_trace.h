#pragma once
// A trace of pipeline steps computed from first principles, for tests of what can be asked of
// traces and of what is drawn: 1F1B on `stages` x `ways` ranks, rendezvous messages, tensor
// collectives within passes, one all-reduce over the ways and one optimizer update at the end.

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/trace.h"

namespace orrery::core {

struct PipelineShape {
  int stages = 2;
  int microbatches = 2;
  int ways = 1;
  int layers = 1;  ///< Spans per pass; after each a tensor collective when `tensor` > 0.
  int steps = 1;
  double forward = 1.0;  ///< Seconds of a whole pass.
  double backward = 2.0;
  double message = 0.0;
  double tensor = 0.0;
  double all_reduce = 0.0;
  double optimizer = 0.0;
  double jitter = 0.0;  ///< Relative standard deviation of the compute times.
  bool simulated = true;
  unsigned seed = 1;
};

class PipelineTrace {
 public:
  explicit PipelineTrace(const PipelineShape& shape) : shape_(shape), random_(shape.seed) {}

  Trace build() {
    for (int step = 0; step < shape_.steps; ++step) {
      const double begin = now_;
      for (int way = 0; way < shape_.ways; ++way) run_way(step, way, begin);
      finish(step);
      trace_.steps.push_back({Seconds(begin), Seconds(now_), std::nullopt});
    }
    trace_.simulated = shape_.simulated;
    trace_.about = {
        {"plan", "pp" + std::to_string(shape_.stages) + " dp" + std::to_string(shape_.ways)}};
    assemble();
    return std::move(trace_);
  }

 private:
  struct Record {
    Rank rank;
    Stream stream = Stream::Compute;
    InstructionRef at;
    SpanKind kind = SpanKind::Forward;
    std::string name;
    std::optional<std::int32_t> microbatch;
    double start = 0, transfer = 0, end = 0, bytes = 0;
    std::vector<std::size_t> after;
  };
  struct Pass {
    bool forward;
    int microbatch;
  };

  static std::vector<Pass> one_forward_one_backward(int stages, int microbatches, int stage) {
    const int warm = std::min(microbatches, stages - 1 - stage);
    std::vector<Pass> order;
    for (int m = 0; m < warm; ++m) order.push_back({true, m});
    for (int m = warm; m < microbatches; ++m) {
      order.push_back({true, m});
      order.push_back({false, m - warm});
    }
    for (int m = microbatches - warm; m < microbatches; ++m) order.push_back({false, m});
    return order;
  }

  double noisy(double seconds) {
    if (shape_.jitter == 0) return seconds;
    return seconds * std::max(0.2, std::normal_distribution<double>(1.0, shape_.jitter)(random_));
  }

  std::size_t add(Record record) {
    records_.push_back(std::move(record));
    return records_.size() - 1;
  }
  double& free_at(Rank rank, Stream stream, double begin) {
    return free_.try_emplace({rank, stream}, begin).first->second;
  }

  /// Runs one data way's pipeline: each stage's passes in order, as soon as their input is there.
  void run_way(int step, int way, double begin) {
    const int p = shape_.stages;
    std::vector<std::vector<Pass>> order;
    for (int s = 0; s < p; ++s) {
      order.push_back(one_forward_one_backward(p, shape_.microbatches, s));
    }
    std::vector<std::size_t> next(order.size(), 0);
    std::map<std::tuple<int, bool, int>, std::size_t> sent;  // (to stage, forward, m) -> compute
    for (bool progress = true; progress;) {
      progress = false;
      for (int s = 0; s < p; ++s) {
        const auto stage = static_cast<std::size_t>(s);
        while (next[stage] < order[stage].size()) {
          const Pass pass = order[stage][next[stage]];
          const bool first = pass.forward ? s == 0 : s == p - 1;
          const auto input = sent.find({s, pass.forward, pass.microbatch});
          if (!first && input == sent.end()) break;
          const auto source = first ? std::optional<std::size_t>() : input->second;
          const int call = static_cast<int>(next[stage]++);
          const std::size_t last = run_pass(step, Rank(way * p + s), call, pass, source, begin);
          const int to = pass.forward ? s + 1 : s - 1;
          if (to >= 0 && to < p) sent[{to, pass.forward, pass.microbatch}] = last;
          last_compute_[Rank(way * p + s)] = last;
          progress = true;
        }
      }
    }
  }

  /// The message from span `source` of the neighbour (its send and our receive), then the compute.
  std::size_t run_pass(int step, Rank rank, int call, Pass pass, std::optional<std::size_t> source,
                       double begin) {
    std::optional<std::size_t> previous;
    if (source) previous = message(step, rank, call, pass, *source, begin);
    const double whole = noisy(pass.forward ? shape_.forward : shape_.backward);
    for (int layer = 0; layer < shape_.layers; ++layer) {
      double& free = free_at(rank, Stream::Compute, begin);
      const double ready = previous ? records_[*previous].end : free;
      Record r{rank,
               Stream::Compute,
               {step, call, 10 + 2 * layer},
               pass.forward ? SpanKind::Forward : SpanKind::Backward,
               (pass.forward ? "linear layers." : "linear_input_grad layers.") +
                   std::to_string(layer) + ".mlp",
               pass.microbatch,
               std::max(free, ready),
               0,
               0,
               0,
               {}};
      r.transfer = r.start;
      r.end = r.start + whole / shape_.layers;
      if (previous) r.after.push_back(*previous);
      free = r.end;
      previous = add(r);
      if (shape_.tensor > 0) previous = tensor_collective(step, rank, call, pass, layer, *previous);
    }
    return *previous;
  }

  std::size_t tensor_collective(int step, Rank rank, int call, Pass pass, int layer,
                                std::size_t after) {
    Record r{rank,
             Stream::Tensor,
             {step, call, 11 + 2 * layer},
             SpanKind::TensorCommunication,
             "all_reduce layers." + std::to_string(layer) + ".mlp",
             pass.microbatch,
             records_[after].end,
             0,
             0,
             0,
             {}};
    r.transfer = r.start;
    r.end = r.start + shape_.tensor;
    r.bytes = 1e6;
    r.after = {after};
    return add(r);
  }

  std::size_t message(int step, Rank rank, int call, Pass pass, std::size_t source, double begin) {
    const Stream sending = pass.forward ? Stream::SendActivation : Stream::SendGradient;
    const Stream receiving = pass.forward ? Stream::ReceiveActivation : Stream::ReceiveGradient;
    const Rank peer = records_[source].rank;
    double& send_free = free_at(peer, sending, begin);
    double& receive_free = free_at(rank, receiving, begin);
    Record send{peer,
                sending,
                {step, records_[source].at.call, 1000},
                SpanKind::PipelineCommunication,
                pass.forward ? "send activation" : "send gradient",
                pass.microbatch,
                std::max(send_free, records_[source].end),
                0,
                0,
                0,
                {}};
    Record receive = send;
    receive.rank = rank;
    receive.stream = receiving;
    receive.at = {step, call, 0};
    receive.name = pass.forward ? "receive activation" : "receive gradient";
    receive.start = receive_free;
    send.transfer = receive.transfer = std::max(send.start, receive.start);
    send.end = receive.end = send.transfer + shape_.message;
    send.bytes = receive.bytes = 2e6;
    send.after = {source};
    send_free = receive_free = send.end;
    const std::size_t from = add(send);
    const std::size_t to = add(receive);
    messages_.emplace_back(from, to);
    return to;
  }

  void finish(int step) {
    const int p = shape_.stages;
    double end = 0;
    const int call = 2 * shape_.microbatches;
    for (int s = 0; s < p; ++s) {
      double last = 0;
      for (int w = 0; w < shape_.ways; ++w) {
        last = std::max(last, records_[last_compute_[Rank(w * p + s)]].end);
      }
      std::vector<std::size_t> members;
      for (int w = 0; w < shape_.ways; ++w) {
        const Rank rank(w * p + s);
        const std::size_t before = last_compute_[rank];
        std::size_t latest = before;
        if (shape_.all_reduce > 0) {
          Record r{rank,
                   Stream::Data,
                   {step, call, 0},
                   SpanKind::DataCommunication,
                   "all_reduce gradients",
                   std::nullopt,
                   records_[before].end,
                   0,
                   0,
                   0,
                   {}};
          r.transfer = last;
          r.end = last + shape_.all_reduce;
          r.bytes = 1e9;
          r.after = {before};
          latest = add(r);
          members.push_back(latest);
        }
        if (shape_.optimizer > 0) {
          Record r{rank,
                   Stream::Compute,
                   {step, call, 1},
                   SpanKind::OptimizerStep,
                   "optimizer_update",
                   std::nullopt,
                   records_[latest].end,
                   0,
                   0,
                   0,
                   {}};
          r.transfer = r.start;
          r.end = r.start + shape_.optimizer;
          r.after = {latest};
          latest = add(r);
        }
        end = std::max(end, records_[latest].end);
      }
      if (!members.empty()) collectives_.push_back(members);
    }
    now_ = end;
    free_.clear();
  }

  void assemble() {
    std::vector<std::size_t> order(records_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto place = [&](std::size_t i) {
      return std::tuple(records_[i].rank, records_[i].stream, records_[i].at);
    };
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
    std::vector<std::int32_t> number(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      number[order[i]] = static_cast<std::int32_t>(i);
    }
    std::map<std::string, std::int32_t> names;
    trace_.dependency_begin = {0};
    for (std::size_t i : order) {
      const Record& r = records_[i];
      if (trace_.lanes.empty() || trace_.lanes.back().rank != r.rank ||
          trace_.lanes.back().stream != r.stream) {
        trace_.lanes.push_back({r.rank, r.stream, {}});
      }
      const auto [name, is_new] =
          names.try_emplace(r.name, static_cast<std::int32_t>(trace_.names.size()));
      if (is_new) trace_.names.push_back(r.name);
      trace_.spans.push_back({static_cast<std::int32_t>(trace_.lanes.size()) - 1, name->second,
                              r.kind, r.at, r.microbatch, Seconds(r.start), Seconds(r.transfer),
                              Seconds(r.end), Bytes(r.bytes)});
      for (std::size_t other : r.after) trace_.dependencies.push_back(number[other]);
      trace_.dependency_begin.push_back(static_cast<std::int64_t>(trace_.dependencies.size()));
    }
    for (const auto& [from, to] : messages_) {
      trace_.flows.push_back({number[from], number[to], Bytes(records_[from].bytes)});
    }
    trace_.collective_begin = {0};
    for (const auto& members : collectives_) {
      for (std::size_t m : members) trace_.collective_spans.push_back(number[m]);
      trace_.collective_begin.push_back(static_cast<std::int64_t>(trace_.collective_spans.size()));
    }
  }

  PipelineShape shape_;
  std::mt19937 random_;
  double now_ = 0;
  std::vector<Record> records_;
  std::vector<std::pair<std::size_t, std::size_t>> messages_;
  std::vector<std::vector<std::size_t>> collectives_;
  std::map<std::pair<Rank, Stream>, double> free_;
  std::map<Rank, std::size_t> last_compute_;
  Trace trace_;
};

inline Trace pipeline_trace(const PipelineShape& shape) { return PipelineTrace(shape).build(); }

}  // namespace orrery::core
