// A dense plan's estimate, its step told by term: costmodel/dense_estimator.h.

#include <algorithm>

#include "costmodel/compute_cost.h"
#include "costmodel/dense_estimator.h"

namespace orrery::costmodel {

using core::Seconds;

Estimate DenseEstimator::estimate(const core::DensePlan& plan) const {
  const PlanSteps all_steps = steps(plan);
  const PlanPasses all_passes = passes(plan);
  const PipelineStages stages = pipeline(all_passes, all_steps);
  const PlanFinish finish = plan_finish(all_passes, pipeline_finish(all_passes.shape, stages));
  const EndOfStep end = end_of_step(all_passes, all_steps, finish);
  Estimate result = add_up(plan, all_passes, stages, finish.first_stage, end);
  const Fullest most = fullest(peaks(memory(plan)), all_steps);
  result.memory = most.memory;
  result.fullest_stage = most.stage;
  return result;
}

namespace {

core::FlopsPerSecond peak_of_all(const core::Cluster& cluster, core::DType precision) {
  core::FlopsPerSecond sum;
  for (const core::NodeGroup& group : cluster.groups) {
    sum += matrix_peak(group.type.device, precision) * (1.0 * group.count * group.type.devices);
  }
  return sum;
}

/// A device with the mean price and power of all; without one where some device states none.
core::Device average_device(const core::Cluster& cluster) {
  core::Device average = cluster.groups.front().type.device;
  const auto mean = [&](std::optional<double> core::Device::*value) -> std::optional<double> {
    double sum = 0;
    for (const core::NodeGroup& group : cluster.groups) {
      if (!(group.type.device.*value)) return std::nullopt;
      sum += *(group.type.device.*value) * group.count * group.type.devices;
    }
    return sum / cluster.devices();
  };
  average.price_per_hour = mean(&core::Device::price_per_hour);
  average.power_watts = mean(&core::Device::power_watts);
  return average;
}

}  // namespace

Seconds DenseEstimator::computing(const StageProfile& profile, int layers) const {
  return (profile.forward.compute.at(layers) + profile.backward.compute.at(layers) +
          profile.weight_grad.compute.at(layers)) *
         ranks_per_core_;
}

Estimate DenseEstimator::add_up(const core::DensePlan& plan, const PlanPasses& all_passes,
                                const PipelineStages& pipeline, Seconds pipeline_time,
                                const EndOfStep& end) const {
  const int m = all_passes.shape.microbatches;
  const std::vector<StageProfile> all_profiles = profiles(plan);  // By kind of chunk.
  Seconds all_computing;                                          // Of all stages, per microbatch.
  for (const std::size_t c : all_passes.kinds->kind_of_chunk) {
    all_computing += computing(all_profiles[c], all_passes.of_chunk[c].layers);
  }
  const auto most = std::max_element(all_passes.of_stage.begin(), all_passes.of_stage.end());
  const Seconds slowest_passes = *most;
  const AlikeStages& slowest =
      all_passes.kinds->stages[static_cast<std::size_t>(most - all_passes.of_stage.begin())];
  Seconds slowest_computing, recompute, device_passes, interference;
  for (const std::size_t c : slowest.chunks) {
    const int layers = all_passes.of_chunk[c].layers;
    slowest_computing += computing(all_profiles[c], layers);
    recompute += all_profiles[c].backward.recompute.at(layers) * (ranks_per_core_ * m);
    device_passes += all_profiles[c].device_passes(layers) * ranks_per_core_;
    interference += all_profiles[c].interference(layers) * (ranks_per_core_ * m);
  }
  PipelineStages free_messages = pipeline;
  for (Seconds& message : free_messages.message) message = Seconds(0);
  const Seconds without_messages =
      plan_finish(all_passes, pipeline_finish(all_passes.shape, free_messages)).first_stage;
  const Seconds begin = pipeline.begin.front();
  const Seconds after = end.end - pipeline_time;
  const Seconds optimizer = std::min(end.computing, after);
  const Seconds late = std::min(end.interference, after - optimizer);

  Estimate result;
  result.devices = plan.devices();
  result.microbatches = m;
  result.memory_available = device_.memory;
  result.step = end.end;
  const auto term = [&](TimeTerm t) -> Seconds& {
    return result.time[static_cast<std::size_t>(t)];
  };
  term(TimeTerm::Compute) = slowest_computing * m - recompute;
  term(TimeTerm::Recompute) = recompute;
  term(TimeTerm::Host) = (slowest_passes - device_passes) * m;
  term(TimeTerm::Interference) = interference + late;
  const auto waits = [&](AffineSeconds Waits::*kind) {
    Seconds sum;
    for (const std::size_t c : slowest.chunks) {
      sum += all_profiles[c].waits(kind, all_passes.of_chunk[c].layers) * ranks_per_core_;
    }
    return sum * m;
  };
  term(TimeTerm::TensorCommunication) = waits(&Waits::tensor);
  term(TimeTerm::ContextCommunication) = waits(&Waits::context);
  term(TimeTerm::ExpertCommunication) = waits(&Waits::expert);
  term(TimeTerm::ParameterGather) = waits(&Waits::gather);
  term(TimeTerm::PipelineBubble) = without_messages - begin - slowest_passes * m;
  term(TimeTerm::PipelineCommunication) = pipeline_time - without_messages;
  term(TimeTerm::Optimizer) = begin + optimizer;
  term(TimeTerm::GradientCommunication) = after - optimizer - late + waits(&Waits::data);
  result.speed_of_one =
      job_.global_batch /
      (all_computing * (1.0 * m * plan.tensor * plan.context * plan.data_ways())).value;
  result.mfu = model_flops_per_token(*model_.transformer, job_.sequence) * job_.global_batch *
               job_.sequence / (peak_of_all(cluster_, job_.precision) * result.step).value;
  result.tokens_per_second = job_.global_batch * job_.sequence / result.step.value;
  add_rates(result, average_device(cluster_), job_);
  result.speed_of_one *= job_.sequence;
  return result;
}

void add_rates(Estimate& estimate, const core::Device& device, const core::Job& job) {
  const auto share = [&](TimeTerm t) {
    return estimate.time[static_cast<std::size_t>(t)] / estimate.step;
  };
  estimate.samples_per_second = job.global_batch / estimate.step.value;
  estimate.bubble_share = std::max(0.0, share(TimeTerm::PipelineBubble));  // Rounding.
  estimate.communication_share =
      share(TimeTerm::TensorCommunication) + share(TimeTerm::ContextCommunication) +
      share(TimeTerm::ExpertCommunication) + share(TimeTerm::ParameterGather) +
      share(TimeTerm::PipelineCommunication) + share(TimeTerm::GradientCommunication) +
      share(TimeTerm::ParameterServer);
  estimate.scaling_efficiency =
      estimate.samples_per_second / (estimate.speed_of_one * estimate.devices);
  constexpr double kSecondsPerHour = 3600.0;
  if (device.price_per_hour) {
    estimate.dollars_per_step =
        *device.price_per_hour * estimate.devices * estimate.step.value / kSecondsPerHour;
  }
  if (device.power_watts) {
    estimate.joules_per_step = *device.power_watts * estimate.devices * estimate.step.value;
  }
}

}  // namespace orrery::costmodel
