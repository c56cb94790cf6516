// Components of a graph, edge by edge: pipeline/dedup/components.py. parents[x] is a node of the component of x, at most
// x; the smallest node of a component is its root, with itself as parent. Nodes without an edge have the parent 0.
#include "hashing.h"
#include "module.h"

namespace {

using namespace clozeline;

constexpr i64 kAhead = 16;  // edges whose parents are asked from memory before they are needed

template <class Node>
Node find_root(Node* parents, Node node) {
  while (parents[node] != node) {
    parents[node] = parents[parents[node]];  // path halving
    node = parents[node];
  }
  return node;
}

template <class Node>
void join(Node* parents, const u64* left, const u64* right, i64 edges) {
  for (i64 i = 0; i < edges; ++i) {
    if (i + kAhead < edges) {
      __builtin_prefetch(parents + left[i + kAhead], 1);
      __builtin_prefetch(parents + right[i + kAhead], 1);
    }
    const Node a = static_cast<Node>(left[i]), b = static_cast<Node>(right[i]);
    if (!parents[a]) parents[a] = a;
    if (!parents[b]) parents[b] = b;
    const Node one = find_root(parents, a), other = find_root(parents, b);
    if (one < other) parents[other] = one;
    if (other < one) parents[one] = other;
  }
}

// Parents become roots: smaller nodes are done first, and the root of 0 is 0.
template <class Node>
void flatten(Node* parents, i64 nodes) {
  for (i64 node = 1; node < nodes; ++node) parents[node] = parents[parents[node]];
}

}  // namespace

// `bytes` of a parent are 4 or 8.
CLOZELINE_API void clozeline_join(void* parents, i64 bytes, const u64* left, const u64* right, i64 edges) {
  if (bytes == 4) join(static_cast<u32*>(parents), left, right, edges);
  if (bytes == 8) join(static_cast<u64*>(parents), left, right, edges);
}

CLOZELINE_API void clozeline_flatten(void* parents, i64 bytes, i64 nodes) {
  if (bytes == 4) flatten(static_cast<u32*>(parents), nodes);
  if (bytes == 8) flatten(static_cast<u64*>(parents), nodes);
}
