#include "engine/criteo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "core/error.h"
#include "core/lowering/lowering_sparse.h"
#include "engine/fnv1a.h"
#include "engine/safetensors.h"

namespace orrery::engine {
namespace {

using ::testing::HasSubstr;

const std::string kParity = std::string(ORRERY_SOURCE_DIR) + "/tests/fixtures/parity/";

/// 26 fields of 200 rows each.
std::vector<core::EmbeddingField> hashed_fields() {
  core::ClickThrough model;
  model.tables = {{.name = "hash", .rows = 5200, .dim = 8, .lookups_per_sample = 26}};
  return core::embedding_of(model, 1).fields;
}

struct Samples {
  explicit Samples(std::size_t count) : labels(count), dense(count * 13), ids(count * 26) {}
  std::vector<float> labels, dense;
  std::vector<std::int32_t> ids;
};

Samples read(const CriteoFile& file, std::int64_t first, std::int64_t count) {
  Samples samples(static_cast<std::size_t>(count));
  file.read(first, count, samples.labels.data(), samples.dense.data(), samples.ids.data());
  return samples;
}

/// A file of the test's own, removed at its end.
class CriteoText : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::path(::testing::TempDir()) / (std::string(info->name()) + ".tsv");
    std::ofstream(path_) << text;
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string message(const std::string& text) {
    try {
      read(CriteoFile(write(text), hashed_fields(), 13), 0, 2);
    } catch (const core::ConfigError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_;
};

std::string sample(const std::string& label, const std::string& first_integer) {
  return label + "\t" + first_integer + std::string(12, '\t') + std::string(26, '\t') + "\n";
}

TEST(Fnv1a, MatchesThePublishedVectors) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8U);
}

TEST(CriteoFile, ReadsWhatTheOracleRead) {
  const CriteoFile file(kParity + "criteo_synth.tsv", hashed_fields(), 13);
  ASSERT_EQ(file.samples(), 1280);
  const Samples samples = read(file, 0, 1280);
  const SafetensorsFile expected(kParity + "ctr_data.safetensors");
  const auto labels = expected.floats("label");
  const auto dense = expected.floats("dense");
  const auto ids = expected.ints("ids");
  EXPECT_TRUE(std::equal(labels.begin(), labels.end(), samples.labels.begin()));
  EXPECT_TRUE(std::equal(dense.begin(), dense.end(), samples.dense.begin()));
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), samples.ids.begin()));
}

// Any cut of the file gives the same samples, and sample 1280 is sample 0 again.
TEST(CriteoFile, RepeatsAfterItsLastSample) {
  const CriteoFile file(kParity + "criteo_synth.tsv", hashed_fields(), 13);
  const Samples whole = read(file, 0, 1280);
  const Samples across = read(file, 3 * 1280 + 1270, 20);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(across.labels[i], whole.labels[(1270 + i) % 1280]);
    EXPECT_EQ(across.ids[i * 26 + 7], whole.ids[(1270 + i) % 1280 * 26 + 7]);
    EXPECT_EQ(across.dense[i * 13 + 2], whole.dense[(1270 + i) % 1280 * 13 + 2]);
  }
}

// log(1 + max(I, 0)): 0 where missing or negative.
TEST_F(CriteoText, TakesTheLogarithmOfIntegers) {
  const CriteoFile file(write(sample("1", "6") + sample("0", "-2") + sample("0", "")),
                        hashed_fields(), 13);
  const Samples samples = read(file, 0, 3);
  EXPECT_FLOAT_EQ(samples.dense[0], std::log(7.0F));
  EXPECT_EQ(samples.dense[13], 0.0F);
  EXPECT_EQ(samples.dense[26], 0.0F);
  EXPECT_EQ(samples.labels, (std::vector<float>{1.0F, 0.0F, 0.0F}));
}

TEST_F(CriteoText, ReadsLinesThatEndInCarriageReturns) {
  const CriteoFile file(write("1" + std::string(39, '\t') + "\r\n1" + std::string(39, '\t')),
                        hashed_fields(), 13);
  ASSERT_EQ(file.samples(), 2);
  const Samples samples = read(file, 0, 2);
  EXPECT_EQ(samples.ids[25], samples.ids[51]);
}

TEST_F(CriteoText, NamesFileAndLineOfABadSample) {
  EXPECT_THAT(message(sample("1", "6") + "1\t2\n"), HasSubstr(".tsv:2: 2 columns; 40"));
  EXPECT_THAT(message(sample("yes", "6")), HasSubstr(".tsv:1: label \"yes\"; 0 or 1"));
  EXPECT_THAT(message(sample("1", "6x")), HasSubstr(".tsv:1: I1: \"6x\"; an integer"));
  EXPECT_THAT(message(sample("1", "99999999999999999999")), HasSubstr("an integer"));
  EXPECT_THAT(message(""), HasSubstr("no sample"));
}

TEST_F(CriteoText, RefusesAModelOfOtherColumns) {
  const auto path = write(sample("1", "6"));
  EXPECT_THROW(CriteoFile(path, hashed_fields(), 12), core::ConfigError);
  EXPECT_THROW(CriteoFile(path, {}, 13), core::ConfigError);
  EXPECT_THROW(CriteoFile(path.string() + ".missing", hashed_fields(), 13), core::ConfigError);
}

}  // namespace
}  // namespace orrery::engine
