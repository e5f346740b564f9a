#include "keel/core/group/coordinator.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <poll.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "keel/core/base/error.h"
#include "keel/core/base/json.h"
#include "keel/core/base/thread.h"
#include "keel/core/group/channel.h"

namespace keel {
namespace {

using std::chrono::steady_clock;

// A connection that does not say within this time which rank it is belongs to a stranger.
constexpr std::chrono::seconds kPatienceWithStrangers{5};
constexpr size_t kMostStrangers = 64;

// More may be wrong with a large job than a message holds, or than anybody reads.
constexpr size_t kMostTold = 10;

// Joins the first ones, and tells how many there are besides.
std::string first_of(const std::vector<std::string>& texts, const std::string& separator) {
  std::string joined;
  for (size_t i = 0; i < std::min(texts.size(), kMostTold); ++i)
    joined += (i == 0 ? "" : separator) + texts[i];
  if (texts.size() > kMostTold)
    joined += separator + "and " + std::to_string(texts.size() - kMostTold) + " more";
  return joined;
}

}  // namespace

class Coordinator::Table {
  // Holds what ranks say of where they are, once one of them has waited in vain.
  struct Inquiry {
    struct Answer {
      std::string at;
      int64_t collective = 0;
    };
    std::string what;         // the rank that asked was told by its engine
    bool connecting = false;  // so that the ranks cannot wait for one another in a collective yet
    Deadline deadline;
    std::map<int, Answer> answers;
  };

  struct Connection {
    Connection(Descriptor socket, std::chrono::milliseconds patience, int its_rank)
        : channel(std::move(socket), patience), rank(its_rank) {}
    Channel channel;
    int rank;  // -1: it has not said yet
    bool joined = false;
    bool left = false;        // it sends and takes nothing any more
    bool said_leave = false;  // and has said so itself
    Deadline deadline = steady_clock::now() + kPatienceWithStrangers;
  };

 public:
  Table(const CoordinatorOptions& options, Descriptor listening, const std::vector<int>& sockets)
      : options_(options),
        listening_(std::move(listening)),
        wake_(check_call(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
        deadline_(steady_clock::now() + options.patience) {
    for (size_t i = 0; i < sockets.size(); ++i)
      connections_.push_back(std::make_unique<Connection>(
          Descriptor(sockets[i]), options.send_patience, static_cast<int>(i)));
    thread_ = start_thread("the thread that watches the ranks", [this] { run(); });
  }
  ~Table() {
    ending_.store(true);
    wake();
    thread_.join();
  }

  void abort(const std::string& why) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!asked_) asked_ = why;
    }
    wake();
  }

  std::string why_ended() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ended_.value_or("");
  }

  void note_end(int rank, const std::string& how) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_processes_.emplace_back(rank, how);
    }
    wake();
  }

 private:
  void wake() {
    const uint64_t one = 1;
    static_cast<void>(!write(wake_.number(), &one, sizeof one));
  }

  void run() {
    while (true) {
      const bool last = ending_.load();
      std::vector<pollfd> entries = {{wake_.number(), POLLIN, 0}};
      // Where there is no room, who comes waits in the queue of the socket.
      if (listening_.open()) entries.push_back({has_room() ? listening_.number() : -1, POLLIN, 0});
      const size_t first = entries.size();
      for (const auto& connection : connections_)
        entries.push_back({connection->left ? -1 : connection->channel.number(), POLLIN, 0});
      poll(entries.data(), entries.size(), last ? 0 : 100);
      uint64_t drained = 0;
      static_cast<void>(!read(wake_.number(), &drained, sizeof drained));
      for (size_t i = first; i < entries.size(); ++i) {
        if (entries[i].revents != 0) serve(*connections_[i - first]);
      }
      if (first == 2 && entries[1].revents != 0) accept_one();
      drop_strangers();
      look_at_time();
      obey();
      judge_ended_processes();
      if (last) return;
    }
  }

  bool has_room() const {
    const auto strangers = std::count_if(connections_.begin(), connections_.end(),
                                         [](const auto& c) { return !c->joined; });
    return static_cast<size_t>(strangers) < kMostStrangers;
  }

  void accept_one() {
    Descriptor socket(accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.open()) return;
    connections_.push_back(
        std::make_unique<Connection>(std::move(socket), options_.send_patience, -1));
  }

  // A connection without a rank is forgotten; one of a rank whose socket is closed stays as a mark.
  void drop_strangers() {
    const auto now = steady_clock::now();
    std::erase_if(connections_,
                  [&](const auto& c) { return c->rank < 0 && (c->left || now > c->deadline); });
  }

  void serve(Connection& connection) {
    if (connection.left) return;
    const bool there = connection.channel.take_in();
    try {
      while (!connection.left) {
        const auto message = connection.channel.next();
        if (!message) break;
        handle(connection, *message);
      }
    } catch (const Error& error) {
      lose(connection, std::string("sent what is no message: ") + error.what(),
           !options_.watches_sockets);
      return;
    }
    if (!there && !connection.left) lose(connection, "is gone", !options_.watches_sockets);
  }

  void lose(Connection& connection, const std::string& how, bool is_known_elsewhere) {
    connection.left = true;
    connection.channel.shut();
    if (connection.joined && !is_known_elsewhere)
      end("rank " + std::to_string(connection.rank) + " " + how);
  }

  void handle(Connection& connection, const Json& json) {
    const JsonView message(json, "message");
    if (const auto why = message.find("failed")) {
      if (connection.joined)
        end("rank " + std::to_string(connection.rank) + " failed: " + why->text());
    } else if (const auto stuck = message.find("stuck")) {
      if (connection.joined) inquire(connection.rank, *stuck);
    } else if (const auto here = message.find("here")) {
      if (connection.joined && inquiry_)
        inquiry_->answers[connection.rank] = {
            (*here)["at"].text(),
            (*here)["collective"].integer(0, std::numeric_limits<int64_t>::max())};
    } else if (message.find("leave")) {
      connection.left = connection.said_leave = true;
    } else if (message.find("put") && connection.joined) {
      tell_all(json);
    } else if (!connection.joined) {
      join(connection, message["join"]);
    }
  }

  void join(Connection& connection, const JsonView& join) {
    if (join["job"].text() != options_.job) return refuse(connection, join["job"].text());
    const auto rank = static_cast<int>(join["rank"].integer(0, 1 << 20));
    const int64_t size = join["size"].integer(1, 1 << 20);
    const std::string who = "rank " + std::to_string(rank);
    if (size != options_.size || rank >= options_.size)
      return end(who + " says that there are " + std::to_string(size) + " ranks; there are " +
                 std::to_string(options_.size));
    if (connection.rank >= 0 && connection.rank != rank)
      return end("a process that was started as rank " + std::to_string(connection.rank) +
                 " says that it is " + who);
    const bool taken = std::any_of(connections_.begin(), connections_.end(),
                                   [&](const auto& c) { return c->joined && c->rank == rank; });
    if (taken) {
      send(connection, {{"abort", "two processes say that they are " + who}});
      return end("two processes say that they are " + who);
    }
    connection.rank = rank;
    connection.joined = true;
    if (ended_) {
      send(connection, {{"abort", *ended_}});
    } else if (missing().empty()) {
      introduce();
    }
  }

  // Tells a process of another job that it is at the wrong place, but not the name of this job: who
  // knows it is let in.
  void refuse(Connection& connection, const std::string& job) {
    ++refused_;
    connection.channel.send(
        {{"abort", "JOB_ID: the ranks that meet here are of another job than " +
                       (job.empty() ? "one without a name" : "'" + job + "'")}});
    lose(connection, "is of another job", /*is_known_elsewhere=*/true);
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < options_.size; ++rank) {
      const bool there = std::any_of(connections_.begin(), connections_.end(),
                                     [&](const auto& c) { return c->joined && c->rank == rank; });
      if (!there) ranks.push_back(rank);
    }
    return ranks;
  }

  void introduce() {
    met_ = true;
    listening_ = Descriptor();
    tell_all({{"put", {{"key", kAllThereKey}, {"value", ""}}}});
  }

  // Part of a message may be on the way when a send gives up, so nothing can follow it.
  void send(Connection& connection, const Json& message) {
    if (connection.channel.send(message) || !connection.channel.stalled()) return;
    lose(connection, "takes none of what it is sent", /*is_known_elsewhere=*/false);
  }

  void tell_all(const Json& message) {
    for (const auto& c : connections_) {
      if (c->joined && !c->left) send(*c, message);
    }
  }

  // A rank waits in vain for others, none of which is known to be gone.
  void inquire(int rank, const JsonView& stuck) {
    if (inquiry_ || ended_) return;
    inquiry_ = Inquiry();
    inquiry_->deadline = steady_clock::now() + options_.answer_patience;
    inquiry_->connecting = stuck["connecting"].boolean();
    inquiry_->what = "rank " + std::to_string(rank) + " waits " + stuck["at"].text() + ": " +
                     stuck["what"].text();
    tell_all({{"where", true}});
  }

  // Ends the job for the ranks that do not answer; else for those that are furthest behind.
  void judge_answers() {
    const auto& answers = inquiry_->answers;
    std::vector<std::string> silent, behind;
    int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
    for (const auto& [rank, answer] : answers) {
      least = std::min(least, answer.collective);
      most = std::max(most, answer.collective);
    }
    for (int rank = 0; rank < options_.size; ++rank) {
      const std::string who = "rank " + std::to_string(rank);
      const auto found = answers.find(rank);
      if (found == answers.end())
        silent.push_back(who + " does not answer");
      else if (least < most && found->second.collective == least)
        behind.push_back(who + " is still " + found->second.at);
    }
    const std::string told = first_of(silent.empty() ? behind : silent, "; ");
    end((inquiry_->connecting ? "the ranks cannot connect: " : "HCCL_EXEC_TIMEOUT: ") + told +
        (told.empty() ? "" : "; ") + inquiry_->what);
  }

  void look_at_time() {
    if (inquiry_ && !ended_) {
      const bool all = inquiry_->answers.size() == static_cast<size_t>(options_.size);
      if (all || steady_clock::now() >= inquiry_->deadline) judge_answers();
    }
    if (met_ || ended_ || steady_clock::now() < deadline_) return;
    std::vector<std::string> ranks;
    for (const int rank : missing()) ranks.push_back(std::to_string(rank));
    end("HCCL_CONNECT_TIMEOUT: after " + std::to_string(options_.patience.count()) +
        " s these ranks have not come: " + first_of(ranks, ", ") +
        (refused_ == 0 ? "" : "; a process with another JOB_ID has"));
  }

  void obey() {
    std::optional<std::string> why;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      why = asked_;
    }
    if (why) end(*why);
  }

  // All that such a process has sent is there, but may not have been read yet.
  void judge_ended_processes() {
    std::vector<std::pair<int, std::string>> processes;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      processes.swap(ended_processes_);
    }
    if (processes.empty()) return;
    for (const auto& connection : connections_) {
      while (!connection->left && is_readable(connection->channel.number())) serve(*connection);
    }
    for (const auto& [rank, how] : processes) {
      const auto is_its_own = [number = rank](const auto& c) { return c->rank == number; };
      const auto own = std::find_if(connections_.begin(), connections_.end(), is_its_own);
      if (own == connections_.end() || !(*own)->said_leave) end(how);
    }
  }
  static bool is_readable(int socket) {
    pollfd entry{socket, POLLIN, 0};
    return poll(&entry, 1, 0) > 0;
  }

  void end(const std::string& why) {
    if (ended_) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = why;
    }
    for (const auto& c : connections_) {
      if (!c->left) send(*c, {{"abort", why}});
    }
  }

  const CoordinatorOptions options_;
  Descriptor listening_;
  Descriptor wake_;
  const Deadline deadline_;
  // These are the thread's own.
  std::vector<std::unique_ptr<Connection>> connections_;
  bool met_ = false;
  int refused_ = 0;  // processes of other jobs
  std::optional<Inquiry> inquiry_;

  std::mutex mutex_;
  std::optional<std::string> ended_;  // written by the thread alone
  std::optional<std::string> asked_;
  std::vector<std::pair<int, std::string>> ended_processes_;  // ranks, and how
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

Coordinator::Coordinator(const CoordinatorOptions& options, const std::vector<int>& sockets)
    : table_(std::make_unique<Table>(options, Descriptor(), sockets)) {}

Coordinator::Coordinator(const CoordinatorOptions& options, const std::string& address,
                         uint16_t port)
    : table_(std::make_unique<Table>(options, listen_at(address, port), std::vector<int>())) {}

Coordinator::~Coordinator() = default;

void Coordinator::abort(const std::string& why) { table_->abort(why); }
void Coordinator::note_end(int rank, const std::string& how) { table_->note_end(rank, how); }
std::string Coordinator::why_ended() const { return table_->why_ended(); }

}  // namespace keel
