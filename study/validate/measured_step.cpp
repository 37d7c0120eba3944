#include "study/validate/measured_step.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "study/validate/csv_table.h"

namespace orrery::study {
namespace {

constexpr double kGiB = 1073741824.0;
constexpr double kGbit = 1e9 / 8.0;

/// Reads the fields of one row.
class RowReader {
 public:
  RowReader(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  const std::string& text(const char* column) const { return table_.at(row_, column); }

  std::optional<double> number(const char* column) const {
    const std::string& field = text(column);
    if (field.empty()) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value) ||
        value < 0) {
      fail(column, "a number of at least 0");
    }
    return value;
  }

  std::optional<double> positive(const char* column) const {
    const auto value = number(column);
    if (value && *value == 0) fail(column, "a number above 0");
    return value;
  }

  std::optional<int> count(const char* column, int least = 1) const {
    const auto value = number(column);
    if (!value) return std::nullopt;
    if (*value != std::floor(*value) || *value < least || *value > 2e9) {
      fail(column, fmt::format("a whole number of at least {}", least));
    }
    return static_cast<int>(*value);
  }

  bool flag(const char* column) const { return count(column, 0).value_or(0) > 0; }

  template <class T>
  std::optional<T> choice(const char* column,
                          const std::vector<std::pair<std::string_view, T>>& names) const {
    const std::string& field = text(column);
    if (field.empty()) return std::nullopt;
    std::string allowed;
    for (const auto& [name, value] : names) {
      if (name == field) return value;
      allowed += (allowed.empty() ? "" : ", ") + std::string(name);
    }
    fail(column, allowed);
  }

 private:
  [[noreturn]] void fail(const char* column, const std::string& allowed) const {
    throw core::ConfigError(fmt::format("{}: found \"{}\"; allowed: {}, or nothing",
                                        table_.where(row_, column), text(column), allowed));
  }

  const CsvTable& table_;
  std::size_t row_;
};

void read_model(MeasuredStep& step, const RowReader& row) {
  step.model = row.text("model");
  step.architecture = row.text("architecture");
  step.layers = row.count("layers");
  step.hidden = row.count("hidden");
  step.heads = row.count("heads");
  step.kv_heads = row.count("kv_heads");
  step.ffn = row.count("ffn");
  step.vocab = row.count("vocab");
  step.sequence = row.count("seq");
  step.gated_mlp = row.flag("gated_mlp");
  step.tied_embeddings = row.flag("tied_embeddings");
  step.experts = row.count("experts").value_or(1);
  step.experts_per_token = row.count("experts_per_token").value_or(1);
}

void read_plan(MeasuredStep& step, const RowReader& row) {
  using core::PipelineSchedule;
  step.data = row.count("data");
  step.tensor = row.count("tensor");
  step.pipeline = row.count("pipeline");
  step.context = row.count("context");
  step.expert = row.count("expert");
  step.sharding_stage = row.count("sharding_stage", 0);
  step.virtual_stages = row.count("virtual_stages");
  std::vector<std::pair<std::string_view, PipelineSchedule>> schedules;
  for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB,
                              PipelineSchedule::Interleaved, PipelineSchedule::ZeroBubbleH1,
                              PipelineSchedule::ZeroBubble1p, PipelineSchedule::ZeroBubble2p}) {
    schedules.emplace_back(core::schedule_name(schedule), schedule);
  }
  step.schedule = row.choice("schedule", schedules);
  step.microbatch = row.count("micro_batch");
  step.global_batch = row.count("global_batch");
  step.recompute =
      row.choice<core::Recompute>("recompute", {{"none", core::Recompute::None},
                                                {"selective", core::Recompute::Selective},
                                                {"full", core::Recompute::Full}});
  step.sequence_parallel = row.flag("sequence_parallel");
  step.attention = row.choice<core::AttentionKind>(
      "attention", {{"plain", core::AttentionKind::Plain}, {"flash", core::AttentionKind::Flash}});
  step.precision = row.choice<core::DType>("precision", {{"fp32", core::DType::Float32},
                                                         {"tf32", core::DType::Tf32},
                                                         {"fp16", core::DType::Float16},
                                                         {"bf16", core::DType::BFloat16},
                                                         {"fp8", core::DType::Float8}});
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

MeasuredStep step_of(const RowReader& row) {
  MeasuredStep step;
  step.id = row.text("id");
  step.source = row.text("source");
  step.device = row.text("device");
  step.framework = row.text("framework");
  step.devices = row.count("devices");
  step.devices_per_node = row.count("devices_per_node");
  if (const auto gbit = row.number("node_network_gbit")) {
    step.node_network = core::BytesPerSecond(*gbit * kGbit);
  }
  read_model(step, row);
  read_plan(step, row);
  if (const auto seconds = row.positive("step_time_s")) step.step = core::Seconds(*seconds);
  if (const auto gib = row.positive("memory_gib")) step.memory = core::Bytes(*gib * kGiB);
  step.assumed = split(row.text("assumed"), ';');
  step.verified = row.text("trust").rfind("memory", 0) != 0;
  return step;
}

}  // namespace

std::vector<MeasuredStep> read_measured_steps(const std::filesystem::path& path) {
  const CsvTable table(path);
  for (const char* column : {"id", "source", "device", "devices"}) {
    if (!table.has(column)) {
      throw core::ConfigError(
          fmt::format("{}: has no column \"{}\"; a table of measured steps needs it "
                      "(docs/files.md)",
                      path.string(), column));
    }
  }
  std::vector<MeasuredStep> steps;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    steps.push_back(step_of(RowReader(table, row)));
  }
  return steps;
}

}  // namespace orrery::study
