#include "study/validate/framework.h"

#include "core/config/table_reader.h"

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
    const std::string name = entry.text("name");
    Framework framework;
    if (entry.has("launch")) framework.launch = entry.quantity<core::Seconds>("launch");
    if (entry.has("overlap_gradients")) {
      framework.overlap_gradients = entry.boolean("overlap_gradients");
    }
    if (entry.has("recompute_whole")) framework.recompute_whole = entry.boolean("recompute_whole");
    if (entry.has("flash_speed")) framework.flash_speed = entry.constant("flash_speed", {0.01, 1});
    if (entry.has("fitted_on")) framework.fitted = read_fitted(entry.table("fitted_on"));
    entry.finish();
    if (!frameworks.emplace(name, framework).second) entry.fail("name", "is there twice");
  }
  reader.finish();
  return frameworks;
}

Framework framework_of(const Frameworks& frameworks, const std::string& name) {
  const auto found = frameworks.find(name);
  return found == frameworks.end() ? Framework{} : found->second;
}

}  // namespace orrery::study
