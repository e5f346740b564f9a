#include "keel/core/group/join_group.h"

#include <atomic>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <poll.h>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/socket.h>

#include "keel/core/base/environment.h"
#include "keel/core/base/json.h"
#include "keel/core/base/thread.h"
#include "keel/core/group/channel.h"
#include "keel/core/group/coordinator.h"
#include "keel/core/group/gloo_engine.h"
#include "keel/core/group/root_rank.h"
#include "keel/core/group/shared_memory.h"

namespace keel {
namespace {

using std::chrono::steady_clock;

// Where a rank dies, its sockets close before the coordinator can say so. So long a rank waits for
// the reason before it asks for it, and again before it tells what it saw itself.
constexpr std::chrono::milliseconds kPatienceForReason{2000};
std::atomic<int> joined_groups{0};
// RankProgress::collective_step of a rank that has begun to join and not yet to sum.
constexpr int64_t kJoined = -1;

std::string to_hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string from_hex(const std::string& text) {
  const auto digit = [&](size_t i) {
    const size_t value = std::string("0123456789abcdef").find(text[i]);
    if (value == std::string::npos) throw Error("message: expected hexadecimal digits");
    return value;
  };
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(digit(i) << 4 | digit(i + 1));
  return bytes;
}

class JoinedGroup final : public Group {
 public:
  explicit JoinedGroup(const JoinOptions& options)
      : Group(options.rank, options.size, options.progress),
        options_(options),
        deadline_(steady_clock::now() + options.connect_patience) {
    if (options.coordinator_socket < 0 && options.rank == 0)
      coordinator_ = std::make_unique<Coordinator>(
          CoordinatorOptions{options.size, options.job, options.connect_patience}, options.address,
          options.port);
    channel_ = std::make_unique<Channel>(options.coordinator_socket >= 0
                                             ? Descriptor(options.coordinator_socket)
                                             : connect_to(options.address, options.port, deadline_),
                                         options.connect_patience);
    monitor_ = start_thread("the thread that watches the coordinator", [this] { watch(); });
    try {
      connect();
    } catch (...) {
      end();
      throw;
    }
    joined_groups.fetch_add(1);
  }
  ~JoinedGroup() override {
    joined_groups.fetch_sub(1);
    if (!left_) fail("it is gone before the others");
    std::unique_ptr<GlooEngine> engine;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      engine.swap(engine_);
    }
    engine.reset();
    end();
  }

  std::unique_ptr<Reduction> make_reduction(const std::string& name, size_t count) override {
    require_equal(*this, "COLLECTIVE_DIVERGED", "makes '" + name + "' of " + std::to_string(count));
    return engine_->make_reduction(name, count);
  }
  std::vector<std::string> all_gather(const std::string& own) override {
    require_whole();
    return engine_->all_gather(own);
  }
  void broadcast(void* bytes, size_t count, int root) override {
    require_root(*this, root);
    // Gloo ends the process where more bytes come than are expected.
    require_equal(*this, "COLLECTIVE_DIVERGED", name_of_broadcast(count, root));
    engine_->broadcast(bytes, count, root);
  }
  std::string transport() const override { return engine_->transport(); }
  void leave() override {
    require_whole();
    // Whoever is through goes at once, rank 0 with the coordinator, while others are not yet.
    leaving_.store(true);
    engine_->barrier();
    left_ = true;
    channel_->send({{"leave", true}});
  }

  void fail(const std::string& why) noexcept override {
    if (!set_cause("this rank failed: " + why, /*own=*/true)) return;
    channel_->send({{"failed", why}});
  }
  std::string loss() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return own_ ? "" : cause_;
  }
  bool broken() const noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !cause_.empty();
  }

 private:
  // Returns whether it is the first one.
  bool set_cause(const std::string& why, bool own = false) noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!cause_.empty()) return false;
      cause_ = why;
      own_ = own;
      if (engine_ != nullptr) engine_->shut();
    }
    changed_.notify_all();
    return true;
  }

  void require_whole() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!cause_.empty()) throw ended_by(cause_);
  }

  bool hears_cause() {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, kPatienceForReason, [this] { return !cause_.empty(); });
  }

  // Tells why a call failed: the coordinator knows which rank was lost and how, Gloo which of its
  // sockets it found closed or silent. Asked, the coordinator finds out which rank is behind.
  [[noreturn]] void explain(const std::string& what) {
    if (!hears_cause()) {
      channel_->send(
          {{"stuck",
            {{"what", what}, {"at", to_string(progress())}, {"connecting", engine_ == nullptr}}}});
      if (!hears_cause()) set_cause(what + ", and the coordinator says nothing");
    }
    require_whole();
    throw ended_by(what);
  }

  [[noreturn]] void diverge(const std::string& what) {
    set_cause(what);
    channel_->send({{"failed", what}});
    require_whole();
    throw ended_by(what);
  }

  void connect() {
    channel_->send(
        {{"join", {{"rank", options_.rank}, {"size", options_.size}, {"job", options_.job}}}});
    // The coordinator puts this when all ranks are there.
    get(kAllThereKey);
    GlooEngineOptions wanted;
    wanted.rank = options_.rank;
    wanted.size = options_.size;
    wanted.address =
        options_.own_address.empty() ? address_of(channel_->number()) : options_.own_address;
    wanted.connect_patience = options_.connect_patience;
    wanted.patience = options_.patience;
    wanted.shares_memory = options_.shares_memory;
    wanted.put = [this](const std::string& key, const std::string& value) { put(key, value); };
    wanted.get = [this](const std::string& key) { return get(key); };
    wanted.begin = [this](const std::string& name) { begin(name); };
    wanted.ran = [this](const std::string& name, auto begin, auto met, auto end) {
      times().add(name, step(), begin, met, end);
    };
    wanted.explain = [this](const std::string& what) { explain(what); };
    wanted.diverge = [this](const std::string& what) { diverge(what); };
    auto engine = make_gloo_engine(wanted);
    const std::lock_guard<std::mutex> lock(mutex_);
    engine_ = std::move(engine);
    if (!cause_.empty()) engine_->shut();
  }

  // A put travels through the coordinator to all ranks, as text.
  void put(const std::string& key, const std::string& value) {
    channel_->send({{"put", {{"key", key}, {"value", to_hex(value)}}}});
  }
  std::string get(const std::string& key) {
    std::unique_lock<std::mutex> lock(mutex_);
    // The coordinator names the missing ranks at its own deadline; this one is a little later.
    const bool heard = changed_.wait_until(lock, deadline_ + std::chrono::seconds(2),
                                           [&] { return !cause_.empty() || told_.count(key) > 0; });
    if (!cause_.empty()) throw ended_by(cause_);
    if (!heard)
      throw RankLost({.op = "HCCL_CONNECT_TIMEOUT", .message = "the other ranks say nothing"});
    return told_.at(key);
  }

  void begin(const std::string& name) {
    require_whole();
    progress().begin(name);
  }

  // The monitor's thread.
  void watch() noexcept {
    while (true) {
      pollfd entry{channel_->number(), POLLIN, 0};
      poll(&entry, 1, -1);
      const bool there = channel_->take_in();
      try {
        while (const auto message = channel_->next()) hear(*message);
      } catch (const std::exception& error) {
        set_cause(std::string("the coordinator sent what is no message: ") + error.what());
      }
      if (there) continue;
      if (leaving_.load()) return;
      set_cause(options_.coordinator_socket >= 0 ? "the launcher is gone" : "rank 0 is gone");
      return;
    }
  }

  void hear(const Json& json) {
    const JsonView message(json, "message");
    if (const auto why = message.find("abort")) {
      set_cause(why->text());
      return;
    }
    if (message.find("where")) {
      channel_->send(
          {{"here",
            {{"at", to_string(progress())}, {"collective", progress().collective.load()}}}});
      return;
    }
    const JsonView put = message["put"];
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      told_[put["key"].text()] = from_hex(put["value"].text());
    }
    changed_.notify_all();
  }

  void end() noexcept {
    channel_->shut();
    monitor_.join();
    coordinator_.reset();
  }

  const JoinOptions options_;
  const Deadline deadline_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Channel> channel_;
  std::thread monitor_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string cause_;                        // why no call goes on; "" while all do
  bool own_ = false;                         // this rank failed first
  std::map<std::string, std::string> told_;  // what ranks have put
  std::unique_ptr<GlooEngine> engine_;
  std::atomic<bool> leaving_{false};
  bool left_ = false;
};

RankProgress* shared_progress(int rank) {
  const auto page = environment_integer(kRankPageVariable, 0, std::numeric_limits<int>::max());
  if (!page) return nullptr;
  const size_t bytes = (static_cast<size_t>(rank) + 1) * sizeof(RankProgress);
  void* mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(*page), 0);
  if (mapped == MAP_FAILED)
    throw Error({.op = kRankPageVariable,
                 .expected = "a page that the launcher shares",
                 .got = std::to_string(*page),
                 .kind = ErrorKind::kInvalidArgument});
  return static_cast<RankProgress*>(mapped) + rank;
}

// Gloo tells of an address that this machine does not have in words of its own, and only once all
// ranks are there; the system does not know who says it.
void require_address_of_machine(const std::string& address, const std::string& said_by) {
  try {
    listen_at(address, 0);
  } catch (const Error& error) {
    throw Error({.op = said_by,
                 .expected = "an address of this machine",
                 .got = address + " (" + error.info().message + ")"});
  }
}

// A command before this one in the same rank has shut their socket to the launcher, whether it came
// to sum or not.
void require_first_join(const JoinOptions& options) {
  if (options.progress == nullptr) return;
  if (options.progress->collective.load() > 0 ||
      options.progress->collective_step.load() == kJoined) {
    throw Error(
        {.op = "RANK_ID",
         .message = "rank " + std::to_string(options.rank) +
                    " of this launch has joined the others already",
         .fix = "start one command for each rank, and the next one by a launch of its own"});
  }
  options.progress->collective_step.store(kJoined);
}

// Keeps two jobs apart that nobody has named and that come to the same port.
std::string name_of_job(const RankPlace& place) {
  if (place.table) return "table-" + place.table->sha256.substr(0, 16);
  return place.address + "-" + std::to_string(place.port) + "-of-" + std::to_string(place.size);
}

}  // namespace

RankPatience read_rank_patience() {
  static constexpr int64_t kUsual = 60, kLongest = 7200;
  const auto read = [](const char* variable) {
    return std::chrono::seconds(environment_integer(variable, 1, kLongest).value_or(kUsual));
  };
  return {read("HCCL_CONNECT_TIMEOUT"), read("HCCL_EXEC_TIMEOUT")};
}

JoinOptions read_join_options(const RankPlace& place) {
  const RankPatience patience = read_rank_patience();
  const auto socket = environment_integer(kRankSocketVariable, 0, std::numeric_limits<int>::max());
  JoinOptions options;
  options.rank = place.rank;
  options.size = place.size;
  const auto job = environment_text("JOB_ID");
  options.address = place.address;
  options.port = place.port;
  options.connect_patience = patience.connect;
  options.patience = patience.execute;
  options.shares_memory =
      environment_choice(kTransportVariable, {"memory", "sockets"}) != "sockets";
  if (place.size == 1) return options;
  if (place.table) {
    const RankDevice& own = place.table->devices[static_cast<size_t>(place.rank)];
    if (!own.ips.empty()) options.own_address = own.ips.front();
    options.address_said_by =
        place.table->source + ": device_ip of rank " + std::to_string(place.rank);
  } else {
    options.meeting_said_by = "CM_CHIEF_IP";
    if (const auto ip = environment_text("CM_WORKER_IP")) {
      options.own_address = *ip;
      options.address_said_by = "CM_WORKER_IP";
    } else if (!socket) {
      options.own_address = "";
    }
  }
  // A launcher meets its own processes only, whatever their table says.
  options.job = job.value_or(socket ? "" : name_of_job(place));
  if (socket) {
    options.coordinator_socket = static_cast<int>(*socket);
    options.progress = shared_progress(place.rank);
  } else if (place.address.empty()) {
    throw Error({.op = "RANK_SIZE",
                 .expected = "1, since nothing says where the ranks meet",
                 .got = std::to_string(place.size),
                 .fix = "start them by `keel launch -n " + std::to_string(place.size) +
                        "`, or set RANK_TABLE_FILE or CM_*",
                 .kind = ErrorKind::kInvalidArgument});
  }
  return options;
}

bool has_joined_group() noexcept { return joined_groups.load() > 0; }

std::shared_ptr<Group> join_group(const JoinOptions& options) {
  if (options.size == 1) return make_local_groups(1).front();
  require_gloo();
  require_first_join(options);
  if (!options.own_address.empty())
    require_address_of_machine(options.own_address, options.address_said_by);
  if (options.coordinator_socket < 0 && options.rank == 0)
    require_address_of_machine(options.address, options.meeting_said_by);
  return std::make_shared<JoinedGroup>(options);
}

}  // namespace keel
