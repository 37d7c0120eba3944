#include "study/fabric_probe.h"

#include <Eigen/Dense>
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/network/collective_algorithm.h"
#include "core/network/topology.h"
#include "study/lower_quartile.h"

namespace orrery::study {
namespace {

constexpr core::GroupSlot kWorld(0);
constexpr core::PeerSlot kPartner(0);
constexpr double kFloatBytes = 4.0;

core::View whole(core::BufferId buffer, std::int64_t count) { return {buffer, 0, count, {}}; }
core::View slice(core::BufferId buffer, std::int64_t count) { return {buffer, 0, count, kWorld}; }

core::Bytes bytes_of(std::int64_t count) {
  return core::Bytes(kFloatBytes * static_cast<double>(count));
}

core::Instruction collective(core::CollectiveKind kind, core::View reads, core::View writes) {
  core::Instruction instruction;
  instruction.label = "probe";
  const std::int64_t count = std::max(reads.count, writes.count);
  instruction.operation = core::Collective{kind, kWorld, core::Reduction::Sum, bytes_of(count)};
  instruction.stream = core::Stream::Data;
  instruction.reads = {reads};
  instruction.writes = {writes};
  return instruction;
}

core::Instruction message(bool sends, core::Channel channel, core::View view) {
  core::Instruction instruction;
  instruction.label = "probe";
  const core::Bytes bytes = bytes_of(view.count);
  // One stream for all, so that nothing overlaps and every time is that of one communication.
  instruction.stream = core::Stream::Data;
  if (sends) {
    instruction.operation = core::Send{kPartner, channel, bytes};
    instruction.reads = {view};
  } else {
    instruction.operation = core::Receive{kPartner, channel, bytes};
    instruction.writes = {view};
  }
  return instruction;
}

/// The role of the even ranks (which send first) or of the odd ones.
core::Role probe_role(bool even, const std::vector<std::int64_t>& counts) {
  core::Role role;
  role.name = even ? "even" : "odd";
  role.group_slots = {core::GroupKind::World};
  role.peer_slots = 1;
  core::Block block;
  block.name = "probe";
  for (const std::int64_t count : counts) {
    const core::BufferId buffer(role.buffers.size());
    role.buffers.push_back({.name = "probe." + std::to_string(count),
                            .dtype = core::DType::Float32,
                            .shape = {count},
                            .kind = core::BufferKind::Communication,
                            .scope = core::BufferScope::Run});
    const core::View all = whole(buffer, count);
    const core::View part = slice(buffer, count);
    using Kind = core::CollectiveKind;
    block.instructions.push_back(collective(Kind::AllReduce, all, all));
    block.instructions.push_back(collective(Kind::ReduceScatter, all, part));
    block.instructions.push_back(collective(Kind::AllGather, part, all));
    block.instructions.push_back(message(even, core::Channel::Activation, all));
    block.instructions.push_back(message(!even, core::Channel::Gradient, all));
  }
  role.blocks = {block};
  role.step = {core::Call{core::BlockId(0), std::nullopt, {}}};
  return role;
}

/// Uncontended time of a sample's communication on a topology.
core::Seconds time_on(const core::Topology& topology, const FabricSample& sample) {
  if (!sample.collective) {
    const core::Route route = topology.route(core::Rank(0), core::Rank(1));
    return topology.latency(route) + sample.bytes / topology.bandwidth(route);
  }
  std::vector<core::Rank> members;
  for (int r = 0; r < topology.ranks(); ++r) members.emplace_back(r);
  const auto method = core::choose_method(*sample.collective, members, sample.bytes, topology);
  return core::uncontended_time(
      core::collective_phases(method, *sample.collective, members, sample.bytes, topology),
      topology);
}

// The parameters: α, 1/β, 1/reduction.
constexpr Eigen::Index kLatency = 0;
constexpr Eigen::Index kBandwidth = 1;
constexpr Eigen::Index kReduction = 2;

/// Of each sample, what each parameter alone costs per second of it, relative to what was measured.
Eigen::MatrixX3d shares_of(core::Cluster cluster, const std::vector<FabricSample>& samples) {
  const auto with = [&](core::LinkCost link, std::optional<core::BytesPerSecond> reduction) {
    cluster.groups.front().type.device_link = link;
    cluster.collectives.reduction = reduction;
    return core::Topology(cluster);
  };
  // Beside a second, what an infinite rate or the node's memory costs is nothing.
  constexpr core::BytesPerSecond kFree(1e30);
  constexpr core::BytesPerSecond kOne(1);
  const core::Topology only[] = {with({core::Seconds(1), kFree}, std::nullopt),
                                 with({core::Seconds(0), kOne}, std::nullopt),
                                 with({core::Seconds(0), kFree}, kOne)};
  Eigen::MatrixX3d shares(static_cast<Eigen::Index>(samples.size()), 3);
  for (Eigen::Index i = 0; i < shares.rows(); ++i) {
    const FabricSample& sample = samples[static_cast<std::size_t>(i)];
    for (Eigen::Index p = 0; p < 3; ++p) {
      const double cost = time_on(only[p], sample).value;
      shares(i, p) = cost > 1e-9 * sample.bytes.value ? cost / sample.duration.value : 0.0;
    }
  }
  return shares;
}

/// min ‖A·x − 1‖² with x ≥ 0 and the bandwidth finite: the best of the least squares with none, one
/// or both of the others fixed at zero that is nowhere negative.
Eigen::Vector3d solve(const Eigen::MatrixX3d& a) {
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(a.rows());
  Eigen::Vector3d best = Eigen::Vector3d::Zero();
  double least = std::numeric_limits<double>::infinity();
  for (const std::vector<Eigen::Index>& free : {std::vector<Eigen::Index>{kBandwidth},
                                                {kLatency, kBandwidth},
                                                {kBandwidth, kReduction},
                                                {kLatency, kBandwidth, kReduction}}) {
    const Eigen::MatrixXd part = a(Eigen::all, free);
    if (part.colwise().norm().minCoeff() == 0.0) continue;
    const Eigen::VectorXd x = part.colPivHouseholderQr().solve(ones);
    const double rest = (part * x - ones).squaredNorm();
    if (x.minCoeff() < 0.0 || rest >= least) continue;
    least = rest;
    best.setZero();
    best(free) = x;
  }
  return best;
}

}  // namespace

core::Program fabric_probe(int ranks, const std::vector<std::int64_t>& counts) {
  ORRERY_CHECK(ranks >= 2 && ranks % 2 == 0, "the probe's ranks exchange messages in pairs");
  core::Program program;
  program.plan = "fabric probe";
  program.model = "none";
  program.roles = {probe_role(true, counts), probe_role(false, counts)};
  program.microbatches = 1;
  core::Group world{core::GroupKind::World, {}};
  for (int r = 0; r < ranks; ++r) {
    world.members.emplace_back(r);
    core::RankBinding binding;
    binding.role = core::RoleId(r % 2);
    binding.groups = {core::GroupId(0)};
    binding.peers = {core::Rank(r % 2 == 0 ? r + 1 : r - 1)};
    program.ranks.push_back(binding);
  }
  program.groups = {world};
  return program;
}

std::vector<FabricSample> fabric_samples(const core::Program& probe, const core::Trace& trace) {
  // By (step, index): from the last start to the last end, over ranks.
  std::map<std::pair<int, int>, std::pair<double, double>> spans;
  for (const core::Span& span : trace.spans) {
    if (trace.steps.size() > 1 && span.instruction.step == 0) continue;
    const auto [at, is_new] = spans.try_emplace({span.instruction.index, span.instruction.step},
                                                span.transfer.value, span.end.value);
    if (is_new) continue;
    at->second.first = std::max(at->second.first, span.transfer.value);
    at->second.second = std::max(at->second.second, span.end.value);
  }
  std::map<int, std::vector<double>> durations;
  for (const auto& [key, span] : spans) durations[key.first].push_back(span.second - span.first);

  std::vector<FabricSample> samples;
  const auto& instructions = probe.roles.front().blocks.front().instructions;
  for (auto& [index, seconds] : durations) {
    const core::Operation& operation = instructions[static_cast<std::size_t>(index)].operation;
    FabricSample sample;
    sample.duration = core::Seconds(lower_quartile(std::move(seconds)));
    if (const auto* collective = std::get_if<core::Collective>(&operation)) {
      sample.collective = collective->kind;
      sample.bytes = collective->bytes;
    } else if (const auto* send = std::get_if<core::Send>(&operation)) {
      sample.bytes = send->bytes;
    } else if (const auto* receive = std::get_if<core::Receive>(&operation)) {
      sample.bytes = receive->bytes;
    }
    samples.push_back(sample);
  }
  return samples;
}

FabricFit fit_fabric(core::Cluster cluster, const std::vector<FabricSample>& samples) {
  ORRERY_CHECK(samples.size() >= 3, "three parameters need three samples");
  ORRERY_CHECK(cluster.collectives.library == core::CollectiveLibrary::AllPairs,
               "the probe is run by the engine");
  const Eigen::Vector3d x = solve(shares_of(std::move(cluster), samples));
  FabricFit fit{{core::Seconds(x(kLatency)), core::BytesPerSecond(1.0 / x(kBandwidth))}, {}};
  if (x(kReduction) > 0) fit.reduction = core::BytesPerSecond(1.0 / x(kReduction));
  return fit;
}

}  // namespace orrery::study
