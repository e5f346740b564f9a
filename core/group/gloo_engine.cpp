#include "keel/core/group/gloo_engine.h"

#include <utility>

#include "keel/core/base/error.h"

#ifdef KEEL_GLOO
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <netdb.h>

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/context.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/socket.h>

#include "keel/core/group/channel.h"
#include "keel/core/group/shared_sum.h"
#include "keel/core/group/socket_sum.h"
#include "keel/core/tensor/buffer.h"
#endif

namespace keel {

GlooEngine::~GlooEngine() = default;

#ifdef KEEL_GLOO

namespace {

namespace tcp = gloo::transport::tcp;

// The keys of the connections that the sums run on begin with this.
constexpr const char* kSteps = "steps/";

// Hands on what Gloo's ranks tell each other about where they listen.
class RelayedStore final : public gloo::rendezvous::Store {
 public:
  RelayedStore(const GlooEngineOptions& options, std::string prefix)
      : options_(options), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    options_.put(prefix_ + key, {data.begin(), data.end()});
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = options_.get(prefix_ + key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) options_.get(prefix_ + key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    wait(keys);
  }

 private:
  const GlooEngineOptions& options_;
  const std::string prefix_;
};

// "127.0.0.1 4711": one end of a connection; "" where there is none.
std::string name_of_end(int socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage = {};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (ask(socket, address, &length) != 0) return "";
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (getnameinfo(address, length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "";
  return std::string(host) + " " + port;
}
int ask_own(int socket, sockaddr* address, socklen_t* length) {
  return getsockname(socket, address, length);
}
int ask_other(int socket, sockaddr* address, socklen_t* length) {
  return getpeername(socket, address, length);
}

// A connected socket, and its two ends as this process sees them and as the other one does.
struct Connection {
  explicit Connection(Descriptor its_socket)
      : socket(std::move(its_socket)),
        own(name_of_end(socket.number(), ask_own)),
        other(name_of_end(socket.number(), ask_other)) {}
  std::string ends() const { return own + " " + other; }
  std::string ends_reversed() const { return other + " " + own; }
  Descriptor socket;
  std::string own, other;
};

// Finds the connected sockets of this process whose own end has that port and duplicates them. Gloo
// does not hand its sockets out, and closes them when it meets an error, after which their numbers
// may be other files'. There may be several: Gloo connects from the port that it listened at, which
// the system may have given to another listener in between.
std::vector<Connection> find_connections(uint16_t port) {
  const std::string ending = " " + std::to_string(port);
  std::vector<Connection> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int number = std::atoi(entry.path().filename().c_str());
    if (!name_of_end(number, ask_own).ends_with(ending)) continue;
    // Its number may be another file's by now, where other threads open and close some.
    const int duplicate = fcntl(number, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0 && errno == EBADF) continue;
    Connection connection(Descriptor(check_call(duplicate, "a socket of the group")));
    if (connection.own.ends_with(ending) && !connection.other.empty())
      found.push_back(std::move(connection));
  }
  return found;
}

// "[127.0.0.1]:26386" or alike: Gloo writes a port as the network's byte order has it.
uint16_t port_in(const std::string& address) {
  const size_t colon = address.rfind(':');
  const int port = colon == std::string::npos ? 0 : std::atoi(address.c_str() + colon + 1);
  if (port <= 0 || port > 65535) throw Error("ranks: '" + address + "' has no port");
  return ntohs(static_cast<uint16_t>(port));
}

class Engine final : public GlooEngine {
 public:
  explicit Engine(const GlooEngineOptions& options) : options_(options) {
    const tcp::attr attributes(options.address.c_str());
    guarded([&] {
      std::shared_ptr<gloo::transport::Device> device = tcp::CreateDevice(attributes);
      rare_ = connect("rare/", device);
      steps_ = connect(kSteps, device);
      for (int i = 0; i < options_.size; ++i) {
        if (i != options_.rank) steps_->getPair(i)->setSync(true, /*busyPoll=*/false);
      }
    });
    std::vector<int> sockets(static_cast<size_t>(options_.size), -1);
    for (const PairSocket& pair : pair_sockets_) {
      if (pair.for_steps) sockets[static_cast<size_t>(pair.other)] = pair.socket.number();
    }
    sums_ = std::make_unique<SocketSum>(options_.rank, std::move(sockets), options_.patience);
    const GatherTexts gather = [this](const std::string& own) { return all_gather(own); };
    why_sockets_ = why_not_shared(options_.shares_memory, gather);
    if (why_sockets_.empty())
      shared_ = std::make_unique<SharedSum>(options_.rank, options_.patience, gather);
    // No rank may send on the second context before Gloo has ceased to read it everywhere.
    barrier();
  }
  ~Engine() override { shut(); }

  std::unique_ptr<Reduction> make_reduction(const std::string& name, size_t count) override;

  std::vector<std::string> all_gather(const std::string& own) override {
    const auto ranks = static_cast<size_t>(options_.size);
    std::vector<uint64_t> lengths(ranks);
    std::string text = own.empty() ? std::string(1, '\0') : own;
    std::vector<std::string> gathered(ranks);
    guarded([&] {
      uint64_t length = own.size();
      gloo::AllgatherOptions first(rare_);
      first.setInput(&length, 1);
      first.setOutput(lengths.data(), ranks);
      first.setTag(tag_++);
      gloo::allgather(first);
      // Each rank gives a byte at least: Gloo has no buffer of none.
      std::vector<size_t> counts;
      size_t total = 0;
      for (const uint64_t of_rank : lengths) {
        counts.push_back(std::max<size_t>(of_rank, 1));
        total += counts.back();
      }
      std::string all(total, '\0');
      gloo::AllgathervOptions second(rare_);
      second.setInput(text.data(), text.size());
      second.setOutput(all.data(), counts);
      second.setTag(tag_++);
      gloo::allgatherv(second);
      size_t from = 0;
      for (size_t i = 0; i < ranks; ++i) {
        gathered[i] = all.substr(from, lengths[i]);
        from += counts[i];
      }
    });
    return gathered;
  }

  void broadcast(void* bytes, size_t count, int root) override {
    if (count == 0) return;
    guarded([&] {
      gloo::BroadcastOptions options(rare_);
      options.setOutput(static_cast<char*>(bytes), count);
      options.setRoot(root);
      options.setTag(tag_++);
      gloo::broadcast(options);
    });
  }

  void barrier() override {
    guarded([&] {
      gloo::BarrierOptions options(rare_);
      options.setTag(tag_++);
      gloo::barrier(options);
    });
  }

  std::string transport() const override {
    return shared_ != nullptr ? "shared memory" : "sockets (" + why_sockets_ + ")";
  }

  void shut() noexcept override {
    if (shared_ != nullptr) shared_->shut();
    for (const PairSocket& pair : pair_sockets_) shutdown(pair.socket.number(), SHUT_RDWR);
  }

  // Runs a call of Gloo's; what it throws is told in our words.
  template <class Call>
  void guarded(const Call& call) {
    try {
      call();
    } catch (const RankLost&) {
      throw;
    } catch (const std::exception& error) {
      options_.explain(error.what());
    }
  }

  void drop(int64_t reduction) noexcept {
    if (shared_ != nullptr) shared_->drop_reduction(reduction);
  }

  // One sum of the reduction with this number.
  uint8_t sum(int64_t reduction, float* values, size_t count, uint8_t vote) {
    options_.begin(names_[static_cast<size_t>(reduction)]);
    const SumPlace own{++number_, reduction};
    const auto begin = CollectiveTimes::Clock::now();
    uint8_t strongest = 0;
    guarded([&] {
      try {
        strongest =
            shared_ != nullptr ? shared_->run(own, vote) : sums_->run(own, values, count, vote);
      } catch (const SumsDiffer& difference) {
        const std::string text = text_of(own, difference);
        options_.diverge(text);
        throw RankLost(text);
      }
    });
    options_.ran(names_[static_cast<size_t>(reduction)], begin,
                 shared_ != nullptr ? shared_->met() : sums_->met(), CollectiveTimes::Clock::now());
    return strongest;
  }

 private:
  std::shared_ptr<gloo::Context> connect(const std::string& name,
                                         std::shared_ptr<gloo::transport::Device>& device) {
    auto context = std::make_shared<gloo::rendezvous::Context>(options_.rank, options_.size);
    // Gloo waits five times as long as it is told for connections.
    context->setTimeout(options_.connect_patience / 5);
    RelayedStore store(options_, name);
    context->connectFullMesh(store, device);
    std::vector<std::vector<Connection>> candidates(static_cast<size_t>(options_.size));
    for (int i = 0; i < options_.size; ++i) {
      if (i != options_.rank)
        candidates[static_cast<size_t>(i)] = tell_candidates(*context->getPair(i), name, i);
    }
    for (int i = 0; i < options_.size; ++i) {
      if (i == options_.rank) continue;
      Descriptor socket = choose(candidates[static_cast<size_t>(i)], name, i);
      pair_sockets_.push_back({std::move(socket), i, name == kSteps});
    }
    context->setTimeout(options_.patience);
    return context;
  }

  // Tells the other rank which connections may be the pair's.
  std::vector<Connection> tell_candidates(const gloo::transport::Pair& pair,
                                          const std::string& name, int other) {
    std::vector<Connection> candidates = find_connections(port_in(pair.address().str()));
    std::string ends;
    for (const Connection& candidate : candidates) ends += candidate.ends() + "\n";
    options_.put(key_of_ends(name, options_.rank, other), ends);
    return candidates;
  }

  // Gloo takes the first connection that comes for a rank's. The other rank names the ends of its
  // own, so a stranger in its place is found out before anything is sent.
  Descriptor choose(std::vector<Connection>& candidates, const std::string& name, int other) {
    const std::string told = "\n" + options_.get(key_of_ends(name, other, options_.rank));
    for (Connection& candidate : candidates) {
      if (told.find("\n" + candidate.ends_reversed() + "\n") != std::string::npos)
        return std::move(candidate.socket);
    }
    throw RankLost({.message = "a stranger's connection took the place of rank " +
                               std::to_string(other) + "'s"});
  }

  static std::string key_of_ends(const std::string& name, int from, int to) {
    return name + "ends/" + std::to_string(from) + "/" + std::to_string(to);
  }

  std::string text_of(int rank, const SumPlace& place) const {
    const auto number = static_cast<size_t>(place.reduction);
    return "rank " + std::to_string(rank) + " " +
           (place.reduction >= 0 && number < names_.size() ? names_[number] : "another sum") +
           " (collective " + std::to_string(place.collective) + ")";
  }

  // Both ranks say the same.
  std::string text_of(const SumPlace& own, const SumsDiffer& difference) const {
    std::string sides[] = {text_of(options_.rank, own),
                           text_of(difference.rank(), difference.place())};
    if (options_.rank > difference.rank()) std::swap(sides[0], sides[1]);
    return "COLLECTIVE_DIVERGED(" + sides[0] + ", " + sides[1] +
           "): the ranks are at different sums";
  }

  struct PairSocket {
    Descriptor socket;
    int other = 0;
    bool for_steps = false;
  };

  GlooEngineOptions options_;
  std::vector<PairSocket> pair_sockets_;
  std::shared_ptr<gloo::Context> rare_;
  std::shared_ptr<gloo::Context> steps_;
  std::unique_ptr<SocketSum> sums_;
  std::unique_ptr<SharedSum> shared_;  // takes the place of sums_ where there is one
  std::string why_sockets_;            // why there is none
  uint32_t tag_ = 0;
  int64_t number_ = 0;              // of sums that have run
  std::vector<std::string> names_;  // of the reductions, as all ranks make them
};

class GlooReduction final : public Reduction {
 public:
  // `shared`: memory that the engine keeps; null: of its own.
  GlooReduction(Engine& engine, size_t count, int64_t number, float* shared)
      : engine_(engine), number_(number) {
    if (shared == nullptr) values_ = allocate_host_buffer(count * sizeof(float));
    data_ = shared != nullptr ? shared : static_cast<float*>(values_->address());
    size_ = count;
  }
  ~GlooReduction() override { engine_.drop(number_); }
  uint8_t sum_and_agree(uint8_t vote) override { return engine_.sum(number_, data_, size_, vote); }

 private:
  Engine& engine_;
  const int64_t number_;
  std::shared_ptr<Buffer> values_;
};

std::unique_ptr<Reduction> Engine::make_reduction(const std::string& name, size_t count) {
  float* memory = nullptr;
  if (shared_ != nullptr)
    memory =
        shared_->add_reduction(count, [this](const std::string& own) { return all_gather(own); });
  // Only a reduction that has its memory is counted: both lists number them alike.
  names_.push_back(name);
  return std::make_unique<GlooReduction>(*this, count, static_cast<int64_t>(names_.size()) - 1,
                                         memory);
}

}  // namespace

bool has_gloo() noexcept { return true; }
void require_gloo() {}

std::unique_ptr<GlooEngine> make_gloo_engine(const GlooEngineOptions& options) {
  return std::make_unique<Engine>(options);
}

#else

bool has_gloo() noexcept { return false; }

void require_gloo() {
  throw Error({.op = "ranks",
               .message = "this build of Keel has no Gloo, which ranks need",
               .fix = "install libgloo-dev and build again"});
}

std::unique_ptr<GlooEngine> make_gloo_engine(const GlooEngineOptions&) {
  require_gloo();
  return nullptr;
}

#endif

}  // namespace keel
