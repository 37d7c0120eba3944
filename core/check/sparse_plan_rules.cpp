// Rules of the parameter-server part: core/check/plan_rules.h.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/check/plan_rules.h"

namespace orrery::core {

namespace {

Reason tables_not_covered(const ClickThrough& c) {
  if (c.interaction == Interaction::Dot) {
    return "the model's interaction \"dot\" is not covered by lowering yet; use "
           "\"factorization-machine\" or \"none\"";
  }
  for (const EmbeddingTable& table : c.tables) {
    if (table.dim == c.tables.front().dim) continue;
    return fmt::format(
        "the model's tables \"{}\" (dim {}) and \"{}\" (dim {}) differ in width, which lowering "
        "does not cover yet; use one dim",
        c.tables.front().name, c.tables.front().dim, table.name, table.dim);
  }
  return {};
}

Reason tables_too_large(const ClickThrough& c) {
  constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();  // Keys are Int32.
  std::int64_t rows = 0;
  for (const EmbeddingTable& table : c.tables) {
    if (table.rows < table.lookups_per_sample) {
      return fmt::format(
          "the model's table \"{}\" has {} rows for {} fields; use at least one each", table.name,
          table.rows, table.lookups_per_sample);
    }
    if (table.rows > kMostRows - rows) {
      return fmt::format(
          "the model's tables have more than {} rows in all, which keys of 32 bits "
          "cannot name; use fewer",
          kMostRows);
    }
    rows += table.rows;
  }
  return {};
}

/// What the job may say but the parameter server does not do yet.
Reason sparse_job_not_covered(const ClickThrough& c, const Job& job) {
  if (!job.sparse_optimizer) {
    return "the job has no optimizer for the embedding tables; add [sparse_optimizer]";
  }
  const Optimizer& o = *job.sparse_optimizer;
  if (o.kind != OptimizerKind::AdaGrad && o.kind != OptimizerKind::Sgd) {
    return "the job's sparse_optimizer is not covered by lowering yet; use \"adagrad\" or \"sgd\"";
  }
  if (o.weight_decay != 0.0) {
    return fmt::format("the job's sparse_optimizer.weight_decay = {} is not covered yet; use 0",
                       o.weight_decay);
  }
  if (job.clip_norm) {
    return "the job's clip_norm is not covered with [sparse] yet: rows' gradients never meet on "
           "one "
           "rank; leave it out";
  }
  return tables_too_large(c);
}

Reason sparse_counts(const SparsePlan& s, int devices) {
  const std::pair<const char*, int> counts[] = {
      {"workers", s.workers}, {"servers", s.servers}, {"slices", s.slices}};
  for (const auto& [key, value] : counts) {
    if (value < 1) return fmt::format("sparse.{} = {}: must be at least 1", key, value);
  }
  if (s.colocated && s.servers > s.workers) {
    return fmt::format(
        "sparse.servers = {}: servers that are workers too cannot outnumber the {} workers; use at "
        "most {}",
        s.servers, s.workers, s.workers);
  }
  const std::int64_t needed = std::int64_t{s.workers} + (s.colocated ? 0 : s.servers);
  if (needed == devices) return {};
  return fmt::format(
      "sparse: {} workers{} = {} ranks, but the cluster has {}; change workers or servers so that "
      "the sum is {}",
      s.workers, s.colocated ? "" : fmt::format(" + {} servers", s.servers), needed, devices,
      devices);
}

Reason sparse_too_large(const SparsePlan& s, const ClickThrough& c, const Job& job) {
  const std::int64_t passes = std::int64_t{s.workers} * s.slices;
  if (passes > kMostPasses) {
    return fmt::format(
        "sparse.slices = {}: workers {} · slices {} = {} are more than the {} slices of a step "
        "that "
        "a program can hold; use fewer",
        s.slices, s.workers, s.slices, passes, kMostPasses);
  }
  double width = c.dense_features;
  for (const EmbeddingTable& table : c.tables) width += 1.0 * table.lookups_per_sample * table.dim;
  const double elements = width * (1.0 * job.global_batch / static_cast<double>(passes));
  if (elements <= kMostElements) return {};
  return fmt::format(
      "sparse.slices = {}: a slice's samples have {:g} looked-up numbers; use at most {:g}",
      s.slices, elements, kMostElements);
}

}  // namespace

Reason click_through_not_covered(const ClickThrough& c, const Job& job) {
  if (auto reason = tables_not_covered(c)) return reason;
  return sparse_job_not_covered(c, job);
}

Reason why_sparse_invalid(const SparsePlan& s, const Model& model, const Job& job, int devices) {
  if (!model.click_through) {
    return "[sparse] lays out embedding tables, but the model is a transformer; use [dense]";
  }
  if (auto reason = sparse_counts(s, devices)) return reason;
  if (s.mode != UpdateMode::Synchronous) {
    return fmt::format("sparse.mode = \"{}\" is not covered by lowering yet; use \"synchronous\"",
                       update_mode_name(s.mode));
  }
  if (auto reason = click_through_not_covered(*model.click_through, job)) return reason;
  const std::int64_t parts = std::int64_t{s.workers} * s.slices;
  if (job.global_batch >= 1 && job.global_batch % parts == 0) {
    return sparse_too_large(s, *model.click_through, job);
  }
  return fmt::format(
      "sparse: the job's global batch of {} is no multiple of workers {} · slices {} = {}; change "
      "one of them",
      job.global_batch, s.workers, s.slices, parts);
}

}  // namespace orrery::core
