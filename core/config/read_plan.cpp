#include "core/config/read.h"
#include "core/config/table_reader.h"

namespace orrery::core {

namespace {

constexpr int kMaxDegree = 10'000'000;
constexpr double kMaxCapacity = 100'000.0;  // As many experts as a model may have.

int degree_or(TableReader& reader, std::string_view key, int otherwise) {
  return reader.has(key) ? reader.count(key, 1, kMaxDegree) : otherwise;
}

std::vector<Axis> read_axis_order(TableReader& reader) {
  std::vector<Axis> order;
  for (const std::string& name : reader.texts("axis_order")) {
    bool known = false;
    for (const Axis axis :
         {Axis::Tensor, Axis::Context, Axis::Sharding, Axis::Expert, Axis::Pipeline, Axis::Data}) {
      if (axis_name(axis) != name) continue;
      order.push_back(axis);
      known = true;
    }
    if (!known) {
      reader.fail("axis_order", "\"" + name +
                                    "\" is unknown; allowed are tensor, context, sharding, expert, "
                                    "pipeline and data");
    }
  }
  return order;
}

PassTimes read_pass_times(TableReader reader) {
  PassTimes times;
  times.forward = reader.quantity<Seconds>("forward");
  times.input_grad = reader.quantity<Seconds>("input_grad");
  times.weight_grad = reader.quantity<Seconds>("weight_grad");
  times.message = reader.quantity<Seconds>("message", Sign::NonNegative);
  if (reader.has("kept")) times.kept = reader.number("kept", {0.0, 1.0});
  reader.finish();
  return times;
}

DensePlan read_dense(TableReader reader) {
  DensePlan d;
  d.data = reader.count("data", 1, kMaxDegree);
  d.tensor = reader.count("tensor", 1, kMaxDegree);
  d.pipeline = reader.count("pipeline", 1, kMaxDegree);
  d.sharding = degree_or(reader, "sharding", d.sharding);
  if (reader.has("sharding_stage")) d.sharding_stage = reader.count("sharding_stage", 0, 3);
  d.context = degree_or(reader, "context", d.context);
  d.expert = degree_or(reader, "expert", d.expert);
  d.expert_tensor = degree_or(reader, "expert_tensor", d.expert_tensor);
  if (reader.has("expert_capacity")) {
    d.expert_capacity = reader.number("expert_capacity", {0.0, kMaxCapacity});
  }
  if (reader.has("sequence_parallel")) d.sequence_parallel = reader.boolean("sequence_parallel");
  d.virtual_stages = degree_or(reader, "virtual_stages", d.virtual_stages);
  d.layers_per_stage = reader.counts("layers_per_stage", 1, kMaxDegree);
  d.microbatch = reader.count("microbatch", 1, kMaxDegree);
  if (reader.has("schedule")) {
    d.schedule =
        reader.choice<PipelineSchedule>("schedule", {{"gpipe", PipelineSchedule::GPipe},
                                                     {"1f1b", PipelineSchedule::OneFOneB},
                                                     {"interleaved", PipelineSchedule::Interleaved},
                                                     {"zb-h1", PipelineSchedule::ZeroBubbleH1},
                                                     {"zb-1p", PipelineSchedule::ZeroBubble1p},
                                                     {"zb-2p", PipelineSchedule::ZeroBubble2p}});
  }
  if (reader.has("pass_times")) d.pass_times = read_pass_times(reader.table("pass_times"));
  if (reader.has("recompute")) {
    d.recompute = reader.choice<Recompute>("recompute", {{"none", Recompute::None},
                                                         {"selective", Recompute::Selective},
                                                         {"full", Recompute::Full}});
  }
  if (reader.has("recompute_whole")) d.recompute_whole = reader.boolean("recompute_whole");
  if (reader.has("recompute_layers")) {
    d.recompute_layers = reader.count("recompute_layers", 0, kMaxDegree);
  }
  if (reader.has("attention")) {
    d.attention = reader.choice<AttentionKind>(
        "attention", {{"flash", AttentionKind::Flash}, {"plain", AttentionKind::Plain}});
  }
  if (reader.has("context_method")) {
    d.context_method = reader.choice<ContextMethod>(
        "context_method", {{"ring", ContextMethod::Ring}, {"all-to-all", ContextMethod::AllToAll}});
  }
  if (reader.has("bucket")) d.bucket = reader.quantity<Bytes>("bucket");
  if (reader.has("overlap_gradients")) d.overlap_gradients = reader.boolean("overlap_gradients");
  if (reader.has("axis_order")) {
    d.axis_order = read_axis_order(reader);
  } else {
    // Beside the tensor group.
    if (d.expert > 1) d.axis_order.insert(d.axis_order.begin() + 1, Axis::Expert);
    if (d.context > 1) d.axis_order.insert(d.axis_order.begin() + 1, Axis::Context);
  }
  reader.finish();
  return d;
}

SparsePlan read_sparse(TableReader reader) {
  SparsePlan s;
  s.workers = reader.count("workers", 1, kMaxDegree);
  s.servers = reader.count("servers", 1, kMaxDegree);
  if (reader.has("colocated")) s.colocated = reader.boolean("colocated");
  if (reader.has("mode")) {
    s.mode = reader.choice<UpdateMode>("mode", {{"synchronous", UpdateMode::Synchronous},
                                                {"bounded-staleness", UpdateMode::BoundedStaleness},
                                                {"asynchronous", UpdateMode::Asynchronous},
                                                {"geo", UpdateMode::Geo}});
  }
  s.slices = degree_or(reader, "slices", s.slices);
  reader.finish();
  return s;
}

}  // namespace

Plan read_plan(const std::filesystem::path& path) {
  const ConfigValue value = parse_toml_file(path);
  TableReader reader(path.string(), value, Sources::Optional);
  Plan plan;
  if (reader.has("name")) plan.name = reader.text("name");
  plan.model = reader.text("model");
  plan.cluster = reader.text("cluster");
  plan.job = reader.text("job");
  if (reader.has("dense")) plan.dense = read_dense(reader.table("dense"));
  if (reader.has("sparse")) plan.sparse = read_sparse(reader.table("sparse"));
  reader.finish();
  if (!plan.dense && !plan.sparse) {
    reader.fail("dense", "is missing; a plan needs [dense], [sparse] or both");
  }
  return plan;
}

}  // namespace orrery::core
