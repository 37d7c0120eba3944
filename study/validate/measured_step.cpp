#include "study/validate/measured_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "study/validate/csv_table.h"

namespace orrery::study {
namespace {

// Those of data/validation/steps.csv; of `parameters` and `step_time_kind` nothing is read.
constexpr std::array<std::string_view, 40> kColumns = {"id",
                                                       "source",
                                                       "model",
                                                       "architecture",
                                                       "layers",
                                                       "hidden",
                                                       "heads",
                                                       "kv_heads",
                                                       "ffn",
                                                       "vocab",
                                                       "seq",
                                                       "gated_mlp",
                                                       "tied_embeddings",
                                                       "experts",
                                                       "experts_per_token",
                                                       "parameters",
                                                       "device",
                                                       "devices",
                                                       "devices_per_node",
                                                       "node_network_gbit",
                                                       "data",
                                                       "tensor",
                                                       "pipeline",
                                                       "context",
                                                       "expert",
                                                       "sharding_stage",
                                                       "virtual_stages",
                                                       "schedule",
                                                       "micro_batch",
                                                       "global_batch",
                                                       "recompute",
                                                       "sequence_parallel",
                                                       "attention",
                                                       "precision",
                                                       "framework",
                                                       "step_time_s",
                                                       "step_time_kind",
                                                       "memory_gib",
                                                       "assumed",
                                                       "trust"};

constexpr double kGiB = 1073741824.0;
constexpr double kGbit = 1e9 / 8.0;
// As core/config reads models and clusters.
constexpr int kMostOfAny = 1'000'000'000;
constexpr int kMostLayers = 10'000;
constexpr int kMostWidth = 10'000'000;
constexpr int kMostDevices = 250'000;
/// From a nanosecond to some years: beyond, a unit is mistaken.
constexpr double kLeastSeconds = 1e-9, kMostSeconds = 1e8;

/// Reads the fields of one row.
class RowReader {
 public:
  RowReader(const CsvTable& table, std::size_t row) : table_(table), row_(row) {}

  const std::string& text(const char* column) const { return table_.at(row_, column); }
  std::string where() const { return table_.where(row_); }

  std::optional<double> number(const char* column) const {
    const std::string& field = text(column);
    if (field.empty()) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value) ||
        value < 0) {
      fail(column, "a number that is not negative");
    }
    return value;
  }

  std::optional<double> positive(const char* column) const {
    const auto value = number(column);
    if (value && *value == 0) fail(column, "a number above 0");
    return value;
  }

  std::optional<int> count(const char* column, int least = 1, int most = kMostOfAny) const {
    const auto value = number(column);
    if (!value) return std::nullopt;
    if (*value != std::floor(*value) || *value < least || *value > most) {
      fail(column, fmt::format("a whole number from {} to {}", least, most));
    }
    return static_cast<int>(*value);
  }

  bool flag(const char* column) const { return count(column, 0, 1).value_or(0) > 0; }

  /// A text that must be there.
  const std::string& name(const char* column) const {
    if (text(column).empty()) {
      throw core::ConfigError(table_.where(row_, column) + ": is empty; a row needs one");
    }
    return text(column);
  }

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

  [[noreturn]] void fail(const char* column, const std::string& allowed) const {
    throw core::ConfigError(fmt::format("{}: found \"{}\"; allowed: {}, or nothing",
                                        table_.where(row_, column), text(column), allowed));
  }

 private:
  const CsvTable& table_;
  std::size_t row_;
};

void read_model(MeasuredStep& step, const RowReader& row) {
  step.model = row.text("model");
  step.architecture = row.text("architecture");
  step.layers = row.count("layers", 1, kMostLayers);
  step.hidden = row.count("hidden", 1, kMostWidth);
  step.heads = row.count("heads", 1, kMostWidth);
  step.kv_heads = row.count("kv_heads", 1, kMostWidth);
  step.ffn = row.count("ffn", 1, kMostWidth);
  step.vocab = row.count("vocab", 1, kMostWidth);
  step.sequence = row.count("seq");
  step.gated_mlp = row.flag("gated_mlp");
  step.tied_embeddings = row.flag("tied_embeddings");
  step.experts = row.count("experts").value_or(1);
  step.experts_per_token = row.count("experts_per_token").value_or(1);
}

void read_plan(MeasuredStep& step, const RowReader& row) {
  using core::PipelineSchedule;
  step.data = row.count("data", 1, kMostDevices);
  step.tensor = row.count("tensor", 1, kMostDevices);
  step.pipeline = row.count("pipeline", 1, kMostDevices);
  step.context = row.count("context", 1, kMostDevices);
  step.expert = row.count("expert", 1, kMostDevices);
  step.sharding_stage = row.count("sharding_stage", 0, 3);
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
  step.where = row.where();
  step.id = row.name("id");
  step.source = row.name("source");
  step.device = row.text("device");
  step.framework = row.text("framework");
  step.devices = row.count("devices", 1, kMostDevices);
  step.devices_per_node = row.count("devices_per_node", 1, kMostDevices);
  if (const auto gbit = row.number("node_network_gbit")) {
    step.node_network = core::BytesPerSecond(*gbit * kGbit);
  }
  read_model(step, row);
  read_plan(step, row);
  if (const auto seconds = row.positive("step_time_s")) {
    if (*seconds < kLeastSeconds || *seconds > kMostSeconds) {
      row.fail("step_time_s", fmt::format("{:g} to {:g} s", kLeastSeconds, kMostSeconds));
    }
    step.step = core::Seconds(*seconds);
  }
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

std::vector<std::string> unknown_columns(const std::filesystem::path& path) {
  std::string all;
  for (const std::string_view column : kColumns) {
    all += (all.empty() ? "" : ", ") + std::string(column);
  }
  std::vector<std::string> warnings;
  const CsvTable table(path);
  for (const auto& [name, index] : table.columns()) {
    if (std::find(kColumns.begin(), kColumns.end(), name) != kColumns.end()) continue;
    warnings.push_back(fmt::format("{}: found column \"{}\", which is not read; known: {}",
                                   path.string(), name, all));
  }
  return warnings;
}

std::vector<MeasuredStep> without_repeated(std::vector<MeasuredStep> steps,
                                           std::vector<std::string>& warnings) {
  std::map<std::pair<std::string, std::string>, std::string> first;  // Where.
  std::vector<MeasuredStep> once;
  for (MeasuredStep& step : steps) {
    const auto [entry, added] = first.try_emplace({step.source, step.id}, step.where);
    if (added) {
      once.push_back(std::move(step));
      continue;
    }
    warnings.push_back(fmt::format(
        "{}: id: found \"{}\", which {} of {} has as well; allowed: once, so this row is left out",
        step.where, step.id, entry->second, step.source));
  }
  return once;
}

}  // namespace orrery::study
