#include "core/lowering/gradient_buckets.h"

#include <algorithm>

namespace orrery::core {
namespace {

class BucketWriter {
 public:
  BucketWriter(const StageParameters& parameters, const StageSlice& slice, const DensePlan& plan,
               bool ties_stages)
      : parameters_(parameters), slice_(slice), plan_(plan), ties_stages_(ties_stages) {}

  std::vector<GradientBucket> write() {
    const int parts = static_cast<int>(parameters_.parts.size());
    if (!plan_.overlap_gradients) {
      add(0, parts - 1);
    } else {
      add_each();
    }
    std::reverse(buckets_.begin(), buckets_.end());
    place();
    return std::move(buckets_);
  }

 private:
  // From the last part to the first.
  void add_each() {
    int part = static_cast<int>(parameters_.parts.size()) - 1;
    if (parameters_.has_head) add(part, part), --part;
    for (auto chunk = slice_.chunks.rbegin(); chunk != slice_.chunks.rend(); ++chunk) {
      const int first = part + 1 - chunk->count;
      while (part >= first) {
        int from = part;
        while (from > first && bytes(from, part) < least()) --from;
        add(from, part);
        part = from - 1;
      }
    }
    if (parameters_.has_embedding) add(part, part);
  }

  void add(int first, int last) {
    const ParameterRange& a = parameters_.parts[static_cast<std::size_t>(first)];
    const ParameterRange& b = parameters_.parts[static_cast<std::size_t>(last)];
    buckets_.push_back({{a.first, b.first + b.count - a.first}, first, last});
  }

  double bytes(int first, int last) const {
    const ParameterRange& a = parameters_.parts[static_cast<std::size_t>(first)];
    const ParameterRange& b = parameters_.parts[static_cast<std::size_t>(last)];
    return static_cast<double>(b.first + b.count - a.first) * dtype_bytes(DType::Float32);
  }
  double least() const { return plan_.bucket ? plan_.bucket->value : 0.0; }

  void place() {
    std::int64_t gradients = 0;
    std::int64_t slices = 0;
    const int parts = static_cast<int>(parameters_.parts.size());
    for (GradientBucket& bucket : buckets_) {
      const bool embedding = parameters_.has_embedding && bucket.first_part == 0;
      const bool head = parameters_.has_head && bucket.last_part == parts - 1;
      bucket.whole = plan_.sharding_stage < 2 || (ties_stages_ && (embedding || head));
      bucket.gradients_first = gradients;
      bucket.slice_first = slices;
      const std::int64_t slice = bucket.parameters.count / slice_.sharding_ways;
      gradients += bucket.whole ? bucket.parameters.count : slice;
      slices += slice;
    }
  }

  const StageParameters& parameters_;
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

std::int64_t gradient_elements(const std::vector<GradientBucket>& buckets, int sharding_ways) {
  const GradientBucket& last = buckets.back();
  return last.gradients_first +
         (last.whole ? last.parameters.count : last.parameters.count / sharding_ways);
}

}  // namespace orrery::core
