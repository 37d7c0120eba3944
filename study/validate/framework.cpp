#include "study/validate/framework.h"

#include <algorithm>

#include "core/config/table_reader.h"
#include "study/validate/source_entries.h"

namespace orrery::study {
namespace {

Framework::Fitted read_fitted(core::TableReader reader) {
  Framework::Fitted fitted;
  fitted.source = reader.text("source");
  fitted.layers = reader.count("layers", 1, 10'000);
  fitted.hidden = reader.count("hidden", 1, 1'000'000);
  reader.finish();
  return fitted;
}

Framework read_framework(core::TableReader& entry) {
  Framework framework;
  framework.name = entry.text("name");
  if (entry.has("sources")) framework.sources = entry.texts("sources");
  if (entry.has("launch")) framework.launch = entry.quantity<core::Seconds>("launch");
  if (entry.has("least_launch")) {
    framework.least_launch = entry.quantity<core::Seconds>("least_launch", core::Sign::NonNegative);
  }
  const auto flag = [&](const char* key, bool& value) {
    if (entry.has(key)) value = entry.boolean(key);
  };
  flag("may_fuse", framework.may_fuse);
  flag("flash2", framework.flash2);
  flag("maybe_half_gradients", framework.maybe_half_gradients);
  flag("blocking_launches", framework.blocking_launches);
  flag("overlap_gradients", framework.overlap_gradients);
  flag("blocking_tensor", framework.blocking_tensor);
  flag("recompute_whole", framework.recompute_whole);
  flag("selective_halves", framework.selective_halves);
  flag("half_gradients", framework.half_gradients);
  flag("messages_take_turns", framework.messages_take_turns);
  flag("messages_split", framework.messages_split);
  if (entry.has("bucket_elements")) {
    framework.bucket_elements = entry.constant("bucket_elements", {0, 1e12});
  }
  if (entry.has("bfloat16_copies"))
    framework.bfloat16_copies = entry.count("bfloat16_copies", 0, 2);
  if (entry.has("uneven_stages")) {
    framework.uneven_stages = entry.choice<UnevenStages>(
        "uneven_stages", {{"even", UnevenStages::Even}, {"filled", UnevenStages::Filled}});
  }
  if (entry.has("flash_speed")) framework.flash_speed = entry.constant("flash_speed", {0.01, 1});
  if (entry.has("fitted_on")) framework.fitted = read_fitted(entry.table("fitted_on"));
  entry.finish();
  return framework;
}

}  // namespace

bool Framework::fitted_on(const MeasuredStep& step) const {
  return fitted && step.source == fitted->source && step.layers == fitted->layers &&
         step.hidden == fitted->hidden;
}

Frameworks read_frameworks(const std::filesystem::path& path) {
  const core::ConfigValue root = core::parse_toml_file(path);
  core::TableReader reader(path.string(), root, core::Sources::Required);
  Frameworks frameworks;
  for (core::TableReader& entry : reader.tables("framework")) {
    const Framework framework = read_framework(entry);
    const bool twice =
        std::any_of(frameworks.begin(), frameworks.end(), [&](const Framework& other) {
          return other.name == framework.name && about_the_same(other, framework);
        });
    if (twice) entry.fail("name", "is there twice, for the same sources");
    frameworks.push_back(framework);
  }
  reader.finish();
  return frameworks;
}

Framework framework_of(const Frameworks& frameworks, const MeasuredStep& step) {
  const Framework* found = entry_of(frameworks, &Framework::name, step.framework, step.source);
  return found == nullptr ? Framework{} : *found;
}

std::vector<int> filled_layers(int layers, int parts) {
  const bool embeddings_count = layers % parts != 0 && (layers + 2) % parts == 0 && parts > 1;
  const int counted = embeddings_count ? layers + 2 : layers;
  const int fullest = (counted + parts - 1) / parts;
  // A stage without layers cannot be.
  if (counted - fullest * (parts - 1) < 1) return core::even_layers(layers, parts);
  std::vector<int> result(static_cast<std::size_t>(parts), fullest);
  result.back() = counted - fullest * (parts - 1);
  if (embeddings_count) {
    --result.front();
    --result.back();
  }
  return result;
}

}  // namespace orrery::study
