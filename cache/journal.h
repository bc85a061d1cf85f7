/*
 * The purge journal: what makes an answered purge outlive the node.
 *
 * Each store has one and each purge goes into all of them, so that any store that was there can tell the others at the
 * next start: the union of all journals is replayed, and a journal that misses part of it is rewritten.
 *
 * Nothing is ever forgotten, and yet it is bounded: of a scope only its newest purge matters; and beyond JOURNAL_SCOPES scopes
 * the oldest are folded into one purge of everything as of the newest number among them, which can only
 * refuse too much (of what is older than the last million purged scopes).
 *
 * Numbers can be compared where the stores ran together. Each start of a keeper, and each store that drops out of a running
 * one, begins a run with a random id; a journal's head lists those whose purges it holds. A store whose last run
 * another one's journal lists was merely away for a while, and learns from the other what it missed. Where two stores ran
 * alternately, each without the other, their purges get new numbers together.
 *
 * A torn tail is a purge that nobody was answered: it is cut off. (What was written together ends with a seal, so that rot in the
 * last purge doesn't look like that.) Damage in the middle may hide one that somebody was: it
 * reads as a purge of everything.
 */
#ifndef BRIM_CACHE_JOURNAL_H
#define BRIM_CACHE_JOURNAL_H

#include "cache/format.h"

enum { JOURNAL_SCOPES = 1 << 20, JOURNAL_BYTES_MAX = 128 << 20 };

/* Runs: times during which the same stores were purged together, as random ids, the newest last. */
struct journal_runs {
	uint64_t ids[FORMAT_JOURNAL_RUNS];
	unsigned count;
};
/* The oldest goes where there is no room. */
void journal_runs_add(struct journal_runs *runs, uint64_t id);
bool journal_runs_has(const struct journal_runs *runs, uint64_t id);

/* A growing set of purges, in memory. Zero it first. */
struct journal_set {
	struct format_purge *purges;
	size_t count, capacity;
	struct journal_runs runs;
};
void journal_set_fini(struct journal_set *set);
int journal_set_add(struct journal_set *set, const struct format_purge *p) NODISCARD;
/* Where the numbers of several journals can't be compared: all purges get the next number, newer than any object. */
void journal_set_renumber(struct journal_set *set);
/* Sorts by number, keeps the newest of each scope, folds the oldest beyond «limit» scopes. */
void journal_set_fold(struct journal_set *set, size_t limit);
/* The newest number; 0: none. */
uint64_t journal_set_newest(const struct journal_set *set);

/* Adds what the journal says to *set; its runs become the set's. *out_whole: false
 * where something was missing or damaged (a purge of everything was added) or torn: rewrite it.
 * 0; -ENOENT; -EBADMSG: not a journal of this store; -EIO, -ENOMEM. */
int journal_load(int dir_fd, const uint64_t store_id[2], struct journal_set *set, bool *out_whole)
	NODISCARD;
/* A new journal that holds just this, beside the old one, synced, then renamed over it. */
int journal_rewrite(int dir_fd, const uint64_t store_id[2], const struct journal_set *set) NODISCARD;

/* An open journal. */
struct journal {
	int fd; /* -1: not open */
	uint64_t bytes;
};
int journal_open(int dir_fd, struct journal *out) NODISCARD;
/* Checksums: before they are appended to any number of journals. */
void journal_seal(struct format_purge *purges, size_t count);
/* Appends and syncs. 0, or a negative errno: it may or may not be there. */
int journal_append(struct journal *j, const struct format_purge *purges, size_t count) NODISCARD;
/* Loads, folds and rewrites it while it is open. run: that begins now; 0: none does. */
int journal_compact(struct journal *j, int dir_fd, const uint64_t store_id[2], uint64_t run) NODISCARD;
void journal_close(struct journal *j);

#endif
