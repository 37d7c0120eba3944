#pragma once
// Hugging Face's config.json, as published with the models.

#include <filesystem>

#include "core/model.h"

namespace orrery::core {

/// The transformer that a config.json describes. Keys that do not change the shape or the
/// arithmetic of training (dropout, token ids, versions) are passed over; those that ask for
/// arithmetic that is not there are refused.
/// @throws ConfigError; an unknown architecture names the known ones.
Transformer read_hugging_face(const std::filesystem::path& file);

}  // namespace orrery::core
