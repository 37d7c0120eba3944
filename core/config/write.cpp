#include "core/config/write.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/config/atomic_file.h"
#include "core/config/toml_text.h"
#include "core/error.h"

namespace orrery::core {

namespace {

std::string_view kind_name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::Cpu:
      return "cpu";
    case DeviceKind::Gpu:
      return "gpu";
  }
  ORRERY_CHECK(false, "unknown DeviceKind");
}

std::string_view fabric_name(NodeFabric fabric) {
  switch (fabric) {
    case NodeFabric::Switch:
      return "switch";
    case NodeFabric::CubeMesh:
      return "cube-mesh";
    case NodeFabric::PcieTree:
      return "pcie-tree";
    case NodeFabric::Memory:
      return "memory";
  }
  ORRERY_CHECK(false, "unknown NodeFabric");
}

std::string_view optimizer_name(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::AdamW:
      return "adamw";
    case OptimizerKind::Adam:
      return "adam";
    case OptimizerKind::Sgd:
      return "sgd";
    case OptimizerKind::AdaGrad:
      return "adagrad";
  }
  ORRERY_CHECK(false, "unknown OptimizerKind");
}

std::string_view data_format_name(DataFormat format) {
  switch (format) {
    case DataFormat::Text:
      return "text";
    case DataFormat::LlmcBin:
      return "llmc-bin";
    case DataFormat::CriteoTsv:
      return "criteo-tsv";
    case DataFormat::Safetensors:
      return "safetensors";
  }
  ORRERY_CHECK(false, "unknown DataFormat");
}

/// `prefix` is "" or "nodes.device.", before the names of the device's tables.
void add_device(TomlText& out, const Device& device, const std::string& prefix) {
  out.text("name", device.name);
  out.text("kind", kind_name(device.kind));
  out.quantity("memory", device.memory);
  out.quantity("memory_bandwidth", device.memory_bandwidth);
  out.number("memory_efficiency", device.memory_efficiency);
  out.quantity("launch", device.launch);
  if (device.gap > Seconds(0)) out.quantity("gap", device.gap);
  if (device.beside_communication > 1.0) {
    out.number("beside_communication", device.beside_communication);
  }
  out.quantity("reserved", device.reserved);
  if (device.price_per_hour) {
    out.text("price", format_quantity(*device.price_per_hour, Dimension::Price));
  }
  if (device.power_watts) out.text("power", format_quantity(*device.power_watts, Dimension::Power));
  out.table(prefix + "peak");
  for (const auto& [dtype, peak] : device.peak) out.quantity(dtype_name(dtype), peak);
  out.table(prefix + "gemm");
  out.number("ceiling", device.gemm.ceiling);
  out.number("half_m", device.gemm.half_m);
  out.number("half_n", device.gemm.half_n);
  out.number("half_k", device.gemm.half_k);
  if (const auto& tiles = device.gemm.tiles) {
    out.table(prefix + "gemm.tiles");
    out.integer("processors", tiles->processors);
    out.number("medium", tiles->medium);
    out.number("small", tiles->small);
  }
  if (device.attention) {
    out.table(prefix + "attention");
    out.number("forward", device.attention->forward);
    out.number("backward", device.attention->backward);
    out.number("half_rows", device.attention->half_rows);
  }
  for (const auto& [name, rate] : device.operators) {
    out.table(prefix + "operators." + name);
    out.quantity("per_call", rate.per_call);
    out.quantity("rate", rate.rate);
  }
}

void add_link(TomlText& out, std::string_view key, const LinkCost& link) {
  out.line(key,
           fmt::format("{{ bandwidth = {}, latency = {} }}", toml_string(format(link.bandwidth)),
                       toml_string(format(link.latency))));
}

void add_node_group(TomlText& out, const NodeGroup& group) {
  const NodeType& type = group.type;
  out.array_entry("nodes");
  out.text("name", type.name);
  out.integer("count", group.count);
  out.integer("devices", type.devices);
  out.integer("cores", type.cores);
  out.text("fabric", fabric_name(type.fabric));
  if (type.devices_per_switch) out.integer("devices_per_switch", *type.devices_per_switch);
  add_link(out, "device_link", type.device_link);
  out.quantity("host_memory", type.host_memory);
  out.integer("network_cards", type.network_cards);
  if (type.network_cards > 0) add_link(out, "network_card", type.network_card);
  out.table("nodes.device");
  add_device(out, type.device, "nodes.device.");
}

void add_switch_graph(TomlText& out, const SwitchGraph& graph) {
  out.table("network.graph");
  for (std::size_t s = 0; s < graph.switches.size(); ++s) {
    out.array_entry("network.graph.switch");
    out.text("name", graph.switches[s]);
    std::vector<std::string> cards;
    for (std::size_t node = 0; node < graph.attached.size(); ++node) {
      for (std::size_t card = 0; card < graph.attached[node].size(); ++card) {
        if (graph.attached[node][card] != static_cast<int>(s)) continue;
        cards.push_back(graph.attached[node].size() == 1 ? fmt::format("[{}]", node)
                                                         : fmt::format("[{}, {}]", node, card));
      }
    }
    out.line("cards", fmt::format("[{}]", fmt::join(cards, ", ")));
  }
  for (const SwitchGraph::Wire& wire : graph.wires) {
    out.array_entry("network.graph.link");
    out.text("from", graph.switches[static_cast<std::size_t>(wire.from)]);
    out.text("to", graph.switches[static_cast<std::size_t>(wire.to)]);
    out.quantity("bandwidth", wire.cost.bandwidth);
    out.quantity("latency", wire.cost.latency);
  }
}

void add_fat_tree(TomlText& out, const Network& network) {
  out.integer("nodes_per_leaf", network.nodes_per_leaf);
  out.number("oversubscription", network.oversubscription);
  if (network.spreading == Spreading::Hash) {
    const Spines spines = network.spines.value_or(Spines{});
    out.integer("spines", spines.spines);
    if (network.pods) out.integer("cores", spines.cores);
  }
  if (!network.pods) return;
  out.table("network.pods");
  out.integer("leaves", network.pods->leaves);
  out.number("oversubscription", network.pods->oversubscription);
}

/// What is the family's own.
void add_family(TomlText& out, const Network& network) {
  switch (network.kind) {
    case NetworkKind::None:
    case NetworkKind::Star:
      return;
    case NetworkKind::FatTree:
      return add_fat_tree(out, network);
    case NetworkKind::Rail:
      out.integer("nodes_per_leaf", network.nodes_per_leaf);
      out.number("oversubscription", network.oversubscription);
      out.text("cross_rail", network.cross_rail == CrossRail::Spine ? "spine" : "within-node");
      return;
    case NetworkKind::Torus:
      out.line("sides", fmt::format("{}", network.torus.sides));
      out.integer("nodes_per_switch", network.torus.nodes_per_switch);
      add_link(out, "link", network.torus.link);
      return;
    case NetworkKind::Dragonfly:
      out.integer("nodes_per_switch", network.dragonfly.nodes_per_switch);
      out.integer("switches_per_group", network.dragonfly.switches_per_group);
      out.integer("groups", network.dragonfly.groups);
      out.integer("links_between_groups", network.dragonfly.links_between_groups);
      add_link(out, "local", network.dragonfly.local);
      add_link(out, "global", network.dragonfly.global);
      return;
    case NetworkKind::Graph:
      return add_switch_graph(out, network.graph);
  }
  ORRERY_CHECK(false, "unknown NetworkKind");
}

void add_network(TomlText& out, const Network& network) {
  out.table("network");
  out.text("kind", network_name(network.kind));
  if (network.kind == NetworkKind::None) return;
  out.quantity("hop_latency", network.hop_latency);
  out.number("efficiency", network.efficiency);
  if (network.kind != NetworkKind::Star && network.kind != NetworkKind::Rail) {
    out.text("spreading", network.spreading == Spreading::Even ? "even" : "hash");
  }
  add_family(out, network);
}

void add_protocol(TomlText& out, std::string_view key, const ProtocolCost& cost) {
  out.line(key, fmt::format("{{ step = {}, network_step = {}, wire = {} }}", toml_number(cost.step),
                            toml_number(cost.network_step), toml_number(cost.wire)));
}

void add_collectives(TomlText& out, const Collectives& c) {
  out.table("collectives");
  switch (c.library) {
    case CollectiveLibrary::AllPairs:
      out.text("library", "all-pairs");
      if (c.reduction) out.quantity("reduction", *c.reduction);
      return;
    case CollectiveLibrary::Nccl:
      out.text("library", "nccl");
      break;
  }
  out.quantity("base", c.base);
  out.number("ring_ends", c.ring_ends);
  if (c.tree_wire) out.number("tree_wire", *c.tree_wire);
  if (c.ll128) add_protocol(out, "ll128", *c.ll128);
  if (c.ll) add_protocol(out, "ll", *c.ll);
  if (!c.in_switch) return;
  out.line("in_switch",
           fmt::format("{{ latency = {}, wire = {} }}", toml_string(format(c.in_switch->latency)),
                       toml_number(c.in_switch->wire)));
}

void add_optimizer(TomlText& out, std::string_view key, const Optimizer& optimizer) {
  out.table(key);
  out.text("kind", optimizer_name(optimizer.kind));
  out.number("learning_rate", optimizer.learning_rate);
  out.number("beta1", optimizer.beta1);
  out.number("beta2", optimizer.beta2);
  out.number("epsilon", optimizer.epsilon);
  out.number("weight_decay", optimizer.weight_decay);
  out.boolean("decay_all", optimizer.decay_all);
  out.number("initial_accumulator", optimizer.initial_accumulator);
}

void add_dense(TomlText& out, const DensePlan& d) {
  std::vector<std::string> axes;
  for (const Axis axis : d.axis_order) axes.push_back(toml_string(axis_name(axis)));
  out.table("dense");
  out.integer("data", d.data);
  out.integer("sharding", d.sharding);
  out.integer("sharding_stage", d.sharding_stage);
  out.integer("tensor", d.tensor);
  out.integer("pipeline", d.pipeline);
  out.integer("context", d.context);
  out.integer("expert", d.expert);
  out.integer("expert_tensor", d.expert_tensor);
  out.number("expert_capacity", d.expert_capacity);
  out.boolean("sequence_parallel", d.sequence_parallel);
  out.integer("virtual_stages", d.virtual_stages);
  out.line("layers_per_stage", fmt::format("{}", d.layers_per_stage));
  out.integer("microbatch", d.microbatch);
  out.text("schedule", schedule_name(d.schedule));
  out.text("recompute", recompute_name(d.recompute));
  out.boolean("recompute_whole", d.recompute_whole);
  if (d.recompute_layers) out.integer("recompute_layers", *d.recompute_layers);
  out.text("attention", attention_kind_name(d.attention));
  out.text("context_method", context_method_name(d.context_method));
  if (d.bucket) out.quantity("bucket", *d.bucket);
  out.boolean("overlap_gradients", d.overlap_gradients);
  out.line("axis_order", fmt::format("[{}]", fmt::join(axes, ", ")));
  if (!d.pass_times) return;
  out.table("dense.pass_times");
  out.quantity("forward", d.pass_times->forward);
  out.quantity("input_grad", d.pass_times->input_grad);
  out.quantity("weight_grad", d.pass_times->weight_grad);
  out.quantity("message", d.pass_times->message);
  out.number("kept", d.pass_times->kept);
}

void add_sparse(TomlText& out, const SparsePlan& s) {
  out.table("sparse");
  out.integer("workers", s.workers);
  out.integer("servers", s.servers);
  out.boolean("colocated", s.colocated);
  out.text("mode", update_mode_name(s.mode));
  out.integer("slices", s.slices);
}

}  // namespace

void write_plan(const std::filesystem::path& path, const Plan& plan) {
  TomlText out;
  if (!plan.name.empty()) out.text("name", plan.name);
  out.text("model", plan.model);
  out.text("cluster", plan.cluster);
  out.text("job", plan.job);
  if (plan.dense) add_dense(out, *plan.dense);
  if (plan.sparse) add_sparse(out, *plan.sparse);
  write_file_atomically(path, out.str());
}

void write_job(const std::filesystem::path& path, const Job& job) {
  TomlText out;
  if (job.sequence > 0) out.integer("sequence", job.sequence);
  out.integer("global_batch", job.global_batch);
  out.text("precision", dtype_name(job.precision));
  out.text("gradients", dtype_name(job.gradient_precision));
  out.integer("steps", job.steps);
  out.integer("seed", static_cast<std::int64_t>(job.seed));
  if (job.clip_norm) out.number("clip_norm", *job.clip_norm);
  if (job.initial_weights) {
    out.text("initial_weights", std::filesystem::absolute(*job.initial_weights).string());
  }
  add_optimizer(out, "optimizer", job.optimizer);
  if (job.sparse_optimizer) add_optimizer(out, "sparse_optimizer", *job.sparse_optimizer);
  if (job.schedule) {
    out.table("schedule");
    out.integer("warmup_steps", job.schedule->warmup_steps);
    out.number("final_learning_rate", job.schedule->final_learning_rate);
  }
  if (job.data) {
    out.table("data");
    out.text("format", data_format_name(job.data->format));
    out.text("path", std::filesystem::absolute(job.data->path).string());
  }
  write_file_atomically(path, out.str());
}

void write_device(const std::filesystem::path& path, const Device& device,
                  const std::string& source) {
  TomlText out;
  out.text("source", source);
  add_device(out, device, "");
  write_file_atomically(path, out.str());
}

void write_cluster(const std::filesystem::path& path, const Cluster& cluster,
                   const std::string& source) {
  TomlText out;
  out.text("source", source);
  out.text("name", cluster.name);
  add_network(out, cluster.network);
  add_collectives(out, cluster.collectives);
  for (const NodeGroup& group : cluster.groups) add_node_group(out, group);
  write_file_atomically(path, out.str());
}

void write_cluster_part(const std::filesystem::path& path, const std::string& name,
                        const std::string& whole, int devices) {
  TomlText out;
  out.text("name", name);
  out.text("part_of", whole);
  out.integer("devices", devices);
  write_file_atomically(path, out.str());
}

}  // namespace orrery::core
