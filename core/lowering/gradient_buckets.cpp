#include "core/lowering/gradient_buckets.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace orrery::core {
namespace {

using Kind = ParameterPart::Kind;

class BucketWriter {
 public:
  BucketWriter(const StageParameters& parameters, const StageSlice& slice, const DensePlan& plan,
               bool ties_stages)
      : parts_(parameters.parts), slice_(slice), plan_(plan), ties_stages_(ties_stages) {}

  std::vector<GradientBucket> write() {
    const auto experts = std::find_if(parts_.begin(), parts_.end(), [](const ParameterPart& part) {
      return part.kind == Kind::Experts;
    });
    const auto others = static_cast<std::size_t>(experts - parts_.begin());
    add_all(0, others);
    add_all(others, parts_.size());
    place();
    return std::move(buckets_);
  }

 private:
  /// Buckets of neighbouring parts, which are experts or are not.
  void add_all(std::size_t first, std::size_t end) {
    if (first == end) return;
    if (!plan_.overlap_gradients) {
      add(first, end - 1);
      return;
    }
    std::size_t next = first;
    if (parts_[first].kind == Kind::Embedding) add(next, next), ++next;
    for (const LayerRange& chunk : slice_.chunks) {
      const std::size_t chunk_end = next + static_cast<std::size_t>(chunk.count);
      add_layers(next, chunk_end);
      next = chunk_end;
    }
    if (next < end) add(next, next);
  }

  /// From the last layer to the first; buckets stay in the order of the parameters.
  void add_layers(std::size_t first, std::size_t end) {
    std::vector<std::pair<std::size_t, std::size_t>> joined;
    while (end > first) {
      std::size_t from = end - 1;
      while (from > first && bytes(from, end - 1) < least()) --from;
      joined.emplace_back(from, end - 1);
      end = from;
    }
    for (auto it = joined.rbegin(); it != joined.rend(); ++it) add(it->first, it->second);
  }

  void add(std::size_t first, std::size_t last) {
    GradientBucket bucket;
    bucket.parameters = {parts_[first].range.first, elements(first, last)};
    for (std::size_t p = first; p <= last; ++p) {
      const Kind kind = parts_[p].kind;
      bucket.embedding = bucket.embedding || kind == Kind::Embedding;
      bucket.head = bucket.head || kind == Kind::Head;
      bucket.experts = kind == Kind::Experts;
      if (kind != Kind::Layer && kind != Kind::Experts) continue;
      if (bucket.layers++ == 0) bucket.first_layer = layer_of(p);
    }
    bucket.ways = bucket.experts ? slice_.expert_sharding_ways : slice_.sharding_ways;
    buckets_.push_back(bucket);
  }

  /// Of the parts of its kind, which one it is.
  int layer_of(std::size_t part) const {
    return static_cast<int>(std::count_if(
        parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(part),
        [&](const ParameterPart& before) { return before.kind == parts_[part].kind; }));
  }

  std::int64_t elements(std::size_t first, std::size_t last) const {
    const ParameterRange& end = parts_[last].range;
    return end.first + end.count - parts_[first].range.first;
  }
  double bytes(std::size_t first, std::size_t last) const {
    return static_cast<double>(elements(first, last)) * dtype_bytes(DType::Float32);
  }
  double least() const { return plan_.bucket ? plan_.bucket->value : 0.0; }

  void place() {
    std::int64_t gradients = 0;
    std::int64_t slices = 0;
    for (GradientBucket& bucket : buckets_) {
      bucket.whole = plan_.sharding_stage < 2 || bucket.ways == 1 ||
                     (ties_stages_ && (bucket.embedding || bucket.head));
      bucket.gradients_first = gradients;
      bucket.slice_first = slices;
      gradients += bucket.whole ? bucket.parameters.count : bucket.slice();
      slices += bucket.slice();
    }
  }

  const std::vector<ParameterPart>& parts_;
  const StageSlice& slice_;
  const DensePlan& plan_;
  bool ties_stages_;
  std::vector<GradientBucket> buckets_;
};

}  // namespace

std::vector<GradientBucket> gradient_buckets(const StageParameters& parameters,
                                             const StageSlice& slice, const DensePlan& plan,
                                             bool ties_stages) {
  return BucketWriter(parameters, slice, plan, ties_stages).write();
}

std::int64_t gradient_elements(const std::vector<GradientBucket>& buckets) {
  const GradientBucket& last = buckets.back();
  return last.gradients_first + (last.whole ? last.parameters.count : last.slice());
}

std::int64_t slice_elements(const std::vector<GradientBucket>& buckets) {
  return buckets.back().slice_first + buckets.back().slice();
}

}  // namespace orrery::core
