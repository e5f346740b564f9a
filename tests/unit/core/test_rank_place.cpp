// Which rank of which job a process is: what the variables say alone, together, and where they do
// not fit.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/core/group/join_group.h"
#include "keel/core/group/rank_place.h"

#include "support/error_of.h"

TEST_SUITE_BEGIN("unit");

namespace {

using keel::RankPlace;
using keel_test::contains;
using keel_test::error_of;
using Variables = std::map<std::string, std::string>;

const std::vector<std::string> kAll = {
    "RANK_ID",      "RANK_SIZE",     "RANK_TABLE_FILE", "HCCL_IF_BASE_PORT",
    "CM_CHIEF_IP",  "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_SIZE",
    "CM_WORKER_IP", "JOB_ID",        "KEEL_RANK_SOCKET"};

// Sets these variables alone, as long as it lives.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (const std::string& name : kAll) {
      if (const char* value = std::getenv(name.c_str())) before_[name] = value;
      unsetenv(name.c_str());
    }
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const std::string& name : kAll) unsetenv(name.c_str());
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  Variables before_;
};

const std::string kTwoRanks =
    std::string(KEEL_SOURCE_DIR) + "/tests/cli/rank_tables/two_ranks.json";

struct Good {
  Variables variables;
  int rank;
  int size;
  std::string address;
  int port;
};

const Good kGood[] = {
    {{}, 0, 1, "", 0},
    {{{"RANK_SIZE", "1"}, {"RANK_ID", "0"}}, 0, 1, "", 0},
    {{{"RANK_SIZE", "4"}, {"RANK_ID", "3"}}, 3, 4, "", 0},
    {{{"RANK_TABLE_FILE", kTwoRanks}, {"RANK_ID", "1"}}, 1, 2, "127.0.0.1", 29600},
    {{{"RANK_TABLE_FILE", kTwoRanks},
      {"RANK_ID", "0"},
      {"RANK_SIZE", "2"},
      {"HCCL_IF_BASE_PORT", "7000"}},
     0,
     2,
     "127.0.0.1",
     7000},
    {{{"CM_WORKER_SIZE", "1"}}, 0, 1, "", 0},
    {{{"CM_WORKER_SIZE", "2"},
      {"RANK_SIZE", "2"},
      {"RANK_ID", "1"},
      {"CM_CHIEF_IP", "::1"},
      {"CM_CHIEF_PORT", "6000"},
      {"CM_CHIEF_DEVICE", "0"},
      {"CM_WORKER_IP", "127.0.0.1"}},
     1,
     2,
     "::1",
     6000},
};

struct Bad {
  Variables variables;
  std::string told;
};

const Bad kBad[] = {
    {{{"CM_WORKER_SIZE", "2"}, {"RANK_SIZE", "3"}, {"RANK_ID", "0"}},
     "RANK_SIZE: expected 2, as CM_WORKER_SIZE says, got 3"},
    {{{"CM_WORKER_SIZE", "2"}, {"RANK_ID", "2"}},
     "RANK_ID: expected 0 to 1, since CM_WORKER_SIZE says 2"},
    {{{"CM_WORKER_SIZE", "2"}, {"RANK_ID", "0"}, {"CM_CHIEF_IP", "127.0.0.1"}},
     "CM_CHIEF_PORT: expected a value, since CM_CHIEF_IP is set, got none"},
    {{{"CM_CHIEF_IP", "127.0.0.1"}}, "CM_WORKER_SIZE: expected a value, since CM_CHIEF_IP is set"},
    {{{"CM_CHIEF_IP", "here"}, {"CM_WORKER_SIZE", "1"}}, "CM_CHIEF_IP: expected an IPv4 or IPv6"},
    {{{"CM_WORKER_IP", "300.1.1.1"}, {"CM_WORKER_SIZE", "1"}}, "CM_WORKER_IP: expected an IPv4"},
    {{{"CM_CHIEF_PORT", "99999"}, {"CM_WORKER_SIZE", "1"}}, "CM_CHIEF_PORT: expected an integer"},
    {{{"CM_CHIEF_DEVICE", "-1"}, {"CM_WORKER_SIZE", "1"}}, "CM_CHIEF_DEVICE: expected an integer"},
    {{{"RANK_TABLE_FILE", kTwoRanks}, {"RANK_ID", "2"}}, "RANK_ID: expected 0 to 1, since "},
    {{{"RANK_TABLE_FILE", kTwoRanks}}, "RANK_ID: expected 0 to 1, since "},
    {{{"RANK_TABLE_FILE", kTwoRanks}, {"CM_CHIEF_IP", "127.0.0.1"}},
     "CM_CHIEF_IP: expected none, since RANK_TABLE_FILE is set, got '127.0.0.1'"},
    {{{"RANK_SIZE", "9999999999"}}, "RANK_SIZE: expected an integer"},
};

}  // namespace

TEST_CASE("rank place: what the variables say") {
  for (const Good& good : kGood) {
    const Environment environment(good.variables);
    const RankPlace place = keel::read_rank_place();
    CHECK(place.rank == good.rank);
    CHECK(place.size == good.size);
    CHECK(place.address == good.address);
    CHECK(place.port == good.port);
  }
}

TEST_CASE("rank place: what does not fit is refused with both sides") {
  for (const Bad& bad : kBad) {
    const Environment environment(bad.variables);
    const std::string told = error_of([] { keel::read_rank_place(); });
    CHECK_MESSAGE(contains(told, bad.told), told);
  }
}

TEST_CASE(
    "rank place: a job that nobody has named is named by its table or by where its ranks meet") {
  const auto job_of = [](Variables variables) {
    variables["RANK_ID"] = "1";
    const Environment environment(variables);
    return keel::read_join_options(keel::read_rank_place()).job;
  };
  const Variables cluster = {
      {"CM_WORKER_SIZE", "2"}, {"CM_CHIEF_IP", "127.0.0.1"}, {"CM_CHIEF_PORT", "6000"}};
  Variables larger = cluster, named = cluster;
  larger["CM_WORKER_SIZE"] = "3";
  named["JOB_ID"] = "night";
  CHECK(job_of(cluster) == "127.0.0.1-6000-of-2");
  CHECK(job_of(larger) == "127.0.0.1-6000-of-3");
  CHECK(job_of(named) == "night");
  CHECK(job_of({{"RANK_TABLE_FILE", kTwoRanks}}).starts_with("table-"));
  CHECK(job_of({{"RANK_TABLE_FILE", kTwoRanks}}) !=
        job_of({{"RANK_TABLE_FILE", kTwoRanks}, {"JOB_ID", "night"}}));
  // A launcher meets its own processes alone.
  CHECK(job_of({{"RANK_TABLE_FILE", kTwoRanks}, {"KEEL_RANK_SOCKET", "0"}}) == "");
}

TEST_SUITE_END();
