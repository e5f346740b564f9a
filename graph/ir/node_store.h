// NodeStore: the nodes of one graph, by their ids. Each lies in the graph's arena, beside the lists
// that were kept for it, and never moves; the table of their places makes finding one a single
// load. Owned by its graph; any thread may read while nobody adds.
#ifndef KEEL_GRAPH_IR_NODE_STORE_H
#define KEEL_GRAPH_IR_NODE_STORE_H

#include <compare>
#include <cstddef>
#include <iterator>
#include <memory>
#include <memory_resource>
#include <vector>

#include "keel/graph/ir/node.h"

namespace keel {

class NodeStore {
 public:
  class const_iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = Node;
    using difference_type = std::ptrdiff_t;
    using pointer = const Node*;
    using reference = const Node&;

    const_iterator() = default;
    explicit const_iterator(Node* const* at) noexcept : at_(at) {}
    reference operator*() const noexcept { return **at_; }
    pointer operator->() const noexcept { return *at_; }
    reference operator[](difference_type n) const noexcept { return *at_[n]; }
    const_iterator& operator++() noexcept { return *this += 1; }
    const_iterator operator++(int) noexcept { return const_iterator(at_++); }
    const_iterator& operator--() noexcept { return *this += -1; }
    const_iterator operator--(int) noexcept { return const_iterator(at_--); }
    const_iterator& operator+=(difference_type n) noexcept {
      at_ += n;
      return *this;
    }
    const_iterator& operator-=(difference_type n) noexcept { return *this += -n; }
    friend const_iterator operator+(const_iterator it, difference_type n) noexcept {
      return it += n;
    }
    friend const_iterator operator+(difference_type n, const_iterator it) noexcept {
      return it += n;
    }
    friend const_iterator operator-(const_iterator it, difference_type n) noexcept {
      return it -= n;
    }
    friend difference_type operator-(const_iterator a, const_iterator b) noexcept {
      return a.at_ - b.at_;
    }
    friend auto operator<=>(const const_iterator&, const const_iterator&) = default;

   private:
    Node* const* at_ = nullptr;
  };
  using iterator = const_iterator;

  // REQUIRES an arena that outlives the store; it gets nothing back before it ends.
  explicit NodeStore(std::pmr::memory_resource* arena) noexcept : arena_(arena) {}
  ~NodeStore() {
    for (Node* node : places_) std::destroy_at(node);
  }
  NodeStore(const NodeStore&) = delete;
  NodeStore& operator=(const NodeStore&) = delete;

  size_t size() const noexcept { return places_.size(); }
  bool empty() const noexcept { return places_.empty(); }
  // REQUIRES id < size().
  const Node& operator[](size_t id) const noexcept { return *places_[id]; }
  Node& operator[](size_t id) noexcept { return *places_[id]; }
  const Node& front() const noexcept { return *places_.front(); }
  const Node& back() const noexcept { return *places_.back(); }
  const_iterator begin() const noexcept { return const_iterator(places_.data()); }
  const_iterator end() const noexcept { return const_iterator(places_.data() + places_.size()); }

  // Returns a node that is nothing yet, behind the others.
  Node& add() {
    void* place = arena_->allocate(sizeof(Node), alignof(Node));
    places_.push_back(static_cast<Node*>(place));
    return *std::construct_at(places_.back());
  }

 private:
  std::pmr::memory_resource* arena_;
  std::vector<Node*> places_;
};

}  // namespace keel

#endif  // KEEL_GRAPH_IR_NODE_STORE_H
