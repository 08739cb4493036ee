"""Named mutants of the core, each of which the core's own tests must kill.

A mutant is one edit of the source, applied to a copy of it; then the tests of session, orchestrator and connector run
against the copy, and have to fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


ADMISSION = "tests/session/test_admission_machine.py"
KERNEL = "tests/kernel"
SHARED = "tests/connector/test_shm_machine.py"


@dataclass(frozen=True)
class Mutant:
    """`old` stands exactly once in `file`, and becomes `new`; the `tests` are run, a folder or one file of it."""

    name: str
    file: str
    old: str
    new: str
    tests: str = "tests/session"


MUTANTS = [
    Mutant(
        "stale_output_accepted",
        "session/answering.py",
        "return self._answer is not None and self._answer.fence == fence",
        "return self._answer is not None",
    ),
    Mutant(
        "interrupt_leaves_the_epoch",
        "session/answering.py",
        "        stale = self.fence\n        self.fence = self._next_fence()\n        self._move(ResponseInput.STOP)",
        "        stale = self.fence\n        self._move(ResponseInput.STOP)\n        self._count = self._count",
    ),
    Mutant(
        "create_leaves_the_epoch",
        "session/answering.py",
        "        self.fence = self._next_fence()\n        self._count += 1",
        "        self._count += 1",
    ),
    Mutant(
        "tell_before_the_fence_moves",
        "session/turns.py",
        "return [*aborts, *self._listening.onset(signal), *rest, *",
        "return [*self._listening.onset(signal), *aborts, *rest, *",
    ),
    Mutant(
        "no_limit_ahead",
        "session/playback.py",
        "too_much = min(ahead, ahead + self._waiting[0].samples - self._ahead)",
        "too_much = min(0, ahead)",
    ),
    Mutant(
        "clock_runs_while_starved",
        "session/playback.py",
        "if self.played(now) == self.sent:",
        "if self.sent == 0:",
    ),
    Mutant(
        "history_keeps_the_unheard",
        "session/answer.py",
        "text = cut_to_words(self.text, heard.text_end)",
        "text = self.text",
    ),
    Mutant(
        "tail_is_not_cut",
        "session/ledgers.py",
        "        self.cut(last, heard)\n",
        "        pass\n",
    ),
    Mutant(
        "close_forgets_the_answer",
        "session/core.py",
        'effects += self.answering.interrupt(now, "closed")',
        "pass",
    ),
    Mutant(
        "close_twice",
        "session/core.py",
        "        if self.closed:\n            return []\n        match event:",
        "        match event:",
    ),
    Mutant(
        "refusal_changes_the_history",
        "session/history.py",
        "        if event.after is not None and event.after != ROOT:\n",
        "        self._items += 1\n        if event.after is not None and event.after != ROOT:\n",
    ),
    Mutant(
        "instructions_change_under_a_turn",
        "session/prompting.py",
        "messages = self._conversation.messages(self._answering.instructions)",
        "messages = self._conversation.messages(self._settings.instructions)",
        "tests/session/test_configure.py",
    ),
    Mutant(
        "tools_come_unasked",
        "session/answer.py",
        'return () if (self.options.tool_choice or self.settings.tool_choice) == "none" else self.settings.tools',
        "return self.settings.tools",
        "tests/session/test_configure.py",
    ),
    Mutant(
        "unreadable_message_goes_unanswered",
        "session/core.py",
        "            case Unreadable(error=error):\n                raise error",
        "            case Unreadable():\n                return []",
        "tests/session/test_core.py",
    ),
    Mutant(
        "prompt_before_the_words",
        "session/prompting.py",
        "if not self._answering.waiting or self._conversation.awaits_transcript:",
        "if not self._answering.waiting:",
    ),
    Mutant(
        "gate_lets_audio_through",
        "session/answering.py",
        "if answer is None or not answer.announced:\n            return []\n        effects",
        "if answer is None:\n            return []\n        effects",
    ),
    Mutant(
        "gate_lets_words_through",
        "session/answering.py",
        "*(answer.say(text, self._conversation) if answer.announced else [])",
        "*answer.say(text, self._conversation)",
    ),
    Mutant(
        "provisional_survives_speech",
        "session/turns.py",
        "                case Resume():\n                    effects += self._prompting.fence_provisional(now)",
        "                case Resume():\n                    pass",
    ),
    Mutant(
        "unfinished_word_read",
        "session/prompting.py",
        "return self.read_ahead(certain(transcript.text))",
        "return self.read_ahead(transcript.text)",
        "tests/session/test_reading.py",
    ),
    Mutant(
        "judged_words_answered_though_they_went_on",
        "session/prompting.py",
        "if utterance is None or self._listening.paused_at(utterance.fence) != transcript.end:",
        "if utterance is None:",
        "tests/session/test_reading.py",
    ),
    Mutant(
        "answered_whatever_it_sounds_like",
        "session/prompting.py",
        "if self._judged is None or not self._listening.likely:",
        "if self._judged is None:",
        "tests/session/test_reading.py",
    ),
    Mutant(
        "reading_ahead_comes_before_answers",
        "engine/line.py",
        "chain(self._waiting.items(), self._later.items())",
        "chain(self._later.items(), self._waiting.items())",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "a_slot_that_runs_out_is_not_counted",
        "engine/slots.py",
        "self.store.ledger.reserve(slot.index, {DEVICE: self._slot_bytes})",
        "pass",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "a_missing_mark_is_not_put_behind",
        "session/reading.py",
        'return words + "." if words[-1:].isalnum() else words',
        "return words",
        "tests/session/test_reading.py",
    ),
    Mutant(
        "what_is_answered_has_a_mark_that_was_not_heard",
        "session/prompting.py",
        'said = Message(role="user", text=transcript.text)',
        'said = Message(role="user", text=marked(transcript.text))',
        "tests/session/test_reading.py",
    ),
    Mutant(
        "judgement_of_other_words_counts",
        "session/prompting.py",
        "whole = said is not None and self._reading.words(fence) == marked(said.text)",
        "whole = True",
        "tests/session/test_reading.py",
    ),
    Mutant(
        "judgement_of_another_pause_counts",
        "session/prompting.py",
        "if said is None or utterance is None or self._listening.paused_at(utterance.fence) != said.end:",
        "if said is None:",
        "tests/session/test_reading.py",
    ),
    Mutant(
        "reading_keeps_the_prompt_waiting",
        "session/reading.py",
        "return [Abort(fence=self.fence)] if reading is not None else []",
        "return []",
        "tests/session/test_reading.py",
    ),
    Mutant(
        "readings_share_a_fence",
        "session/reading.py",
        "self.fence = self.fence.next()._replace(generation=self._generation)",
        "self.fence = self.fence._replace(generation=self._generation)",
        "tests/session/test_reading.py",
    ),
    Mutant(
        "open_question_not_waited_for",
        "session/detector.py",
        "(self._asked is not None and len(self._answers) < self._policy.kept):",
        "False:",
        "tests/session/test_detector.py",
    ),
    Mutant(
        "every_open_question_is_waited_for",
        "session/detector.py",
        "(self._asked is not None and len(self._answers) < self._policy.kept):",
        "self._asked is not None:",
        "tests/session/test_detector.py",
    ),
    Mutant(
        "turn_ends_in_a_word_that_begins",
        "session/detector.py",
        "if self._is_enough and not self._loudness.rising:",
        "if self._is_enough:",
        "tests/session/test_loudness.py",
    ),
    Mutant(
        "silence_from_where_the_detector_let_go",
        "session/detector.py",
        "return self._position - self._loudness.end_of(self._speech_end)",
        "return self._position - self._speech_end",
        "tests/session/test_loudness.py",
    ),
    Mutant(
        "judgement_outlives_its_pause",
        "session/detector.py",
        "        self._words: float | None = None\n",
        '        self._words = getattr(self, "_words", None)\n',
        "tests/session/test_detector.py",
    ),
    Mutant(
        "room_is_taken_for_speech",
        "session/loudness.py",
        "floor = max(floor, self._room + ABOVE_ROOM_DB)",
        "floor = max(floor, floor)",
        "tests/session/test_loudness.py",
    ),
    Mutant(
        "provisional_answers_other_words",
        "session/answering.py",
        "return answer is not None and answer.prompted == messages and answer.settings == settings",
        "return answer is not None and answer.settings == settings",
    ),
    Mutant(
        "provisional_under_old_settings",
        "session/answering.py",
        "return answer is not None and answer.prompted == messages and answer.settings == settings",
        "return answer is not None and answer.prompted == messages",
    ),
    Mutant(
        "old_answer_ends_the_turn",
        "session/detector.py",
        "if self.state is not TurnState.PAUSED or verdict.end != self._asked:",
        "if self.state is not TurnState.PAUSED:",
    ),
    Mutant(
        "response_done_early",
        "session/playback.py",
        "        if not self._waiting:\n            self._move(PlaybackInput.DRAINED)\n\n    def due",
        "        self._move(PlaybackInput.DRAINED)\n\n    def due",
    ),
    Mutant(
        "complete_at_the_first_final_output",
        "orchestrator/core.py",
        "if not request.waiting_for:",
        "if len(request.waiting_for) < 2:",
        "tests/orchestrator",
    ),
    Mutant(
        "failure_leaves_other_stages_at_work",
        "orchestrator/core.py",
        "return [*self._abort(fence), RequestFailed(fence=fence, error=error)]",
        "self._abort(fence)\n                return [RequestFailed(fence=fence, error=error)]",
        "tests/orchestrator",
    ),
    Mutant(
        "late_input_passes",
        "orchestrator/core.py",
        "if run is None or not run.allows(what):\n            return self._drop",
        "if run is None:\n            return self._drop",
        "tests/orchestrator",
    ),
    Mutant(
        "shared_payload_has_one_reader",
        "orchestrator/core.py",
        "if len(readers) > 1:",
        "if len(readers) > 2:",
        "tests/orchestrator",
    ),
    Mutant(
        "retired_lane_takes_more",
        "connector/memory.py",
        "if retired is not None and not fence.outdates(retired):",
        "if retired is not None and fence.outdates(retired):",
        "tests/connector",
    ),
    Mutant(
        "retire_spares_earlier_turns",
        "connector/memory.py",
        "if entry.fence == fence or fence.outdates(entry.fence):",
        "if entry.fence == fence:",
        "tests/connector",
    ),
    Mutant(
        "nobody_waits_for_recognition",
        "session/core.py",
        "return self.listening.behind or self._recognising.behind",
        "return self.listening.behind",
    ),
    Mutant(
        "nobody_waits_for_an_answer_about_the_turn",
        "session/listening.py",
        "listened = self._listened if asked is None else min(self._listened, asked)",
        "listened = self._listened",
    ),
    Mutant(
        "cleared_audio_begins_a_turn",
        "session/listening.py",
        "return self._detector.hear(self._fresh(report))",
        "return self._detector.hear(report)",
    ),
    Mutant(
        "an_onset_forgets_the_audio_under_way",
        "session/listening.py",
        "effects = self._begin(start) if self.utterance is None else []",
        "effects = self._begin(start)",
    ),
    Mutant(
        "a_long_answer_is_idle",
        "session/core.py",
        "        if effects:\n            self._lifetime.touch(now)",
        "        if not effects:\n            self._lifetime.touch(now)",
    ),
    Mutant(
        "place_is_free_though_cleaning_failed",
        "session/places.py",
        "(PlaceState.RELEASING, PlaceInput.FAILED): PlaceState.STUCK",
        "(PlaceState.RELEASING, PlaceInput.FAILED): PlaceState.GONE",
        ADMISSION,
    ),
    Mutant(
        "failed_cleaning_counts_as_done",
        "session/lobby.py",
        "return CleanFailed(session_id=session_id)",
        "return Cleaned(session_id=session_id)",
        ADMISSION,
    ),
    Mutant(
        "failed_cleaning_is_never_retried",
        "session/admission.py",
        "due = [place.retry_s for place in self._held.values() if place.state is PlaceState.STUCK]",
        "due: list[float] = []",
        ADMISSION,
    ),
    Mutant(
        "the_last_comes_first",
        "session/admission.py",
        "            place = next(iter(self._queue.values()))\n            if not",
        "            place = next(reversed(self._queue.values()))\n            if not",
        ADMISSION,
    ),
    Mutant(
        "who_gives_up_waiting_moves_nobody_up",
        "session/admission.py",
        "return self._settle(now) if waited else []",
        "return []",
        ADMISSION,
    ),
    Mutant(
        "a_free_place_is_given_to_nobody",
        "session/admission.py",
        "        self.lengths.ended(now - place.since_s)\n        return self._settle(now)",
        "        self.lengths.ended(now - place.since_s)\n        return []",
        ADMISSION,
    ),
    Mutant(
        "positions_are_told_once",
        "session/admission.py",
        "if again or place.position != position:",
        "if again or not place.position:",
        ADMISSION,
    ),
    Mutant(
        "nobody_is_told_again",
        "session/admission.py",
        "due += (self._refresh_s, ",
        "due += (1e9, ",
        ADMISSION,
    ),
    Mutant(
        "the_queue_has_one_more",
        "session/admission.py",
        "len(self._queue) < self.queue_length:",
        "len(self._queue) <= self.queue_length:",
        ADMISSION,
    ),
    Mutant(
        "waiting_ends_late",
        "session/admission.py",
        "next(iter(self._queue.values())).since_s + self.queue_wait_s)",
        "1e9)",
    ),
    Mutant(
        "only_the_newcomer_is_weighed",
        "session/admission.py",
        "self.budget.lacks(self.taken(), self.tariff.price, held=held)",
        "self.budget.lacks(Price(), self.tariff.price, held=held)",
        ADMISSION,
    ),
    Mutant(
        "a_session_begins_for_somebody_who_has_gone",
        "session/visit.py",
        "return self._admitted and not self._over",
        "return self._admitted",
        "tests/session/test_visit.py",
    ),
    Mutant(
        "a_session_that_nobody_was_told_of_waits_for_a_client",
        "session/visit.py",
        "elif self._told:",
        "elif self._attachment is not None:",
        "tests/session/test_host.py",
    ),
    Mutant(
        "what_cannot_begin_is_never_told",
        "session/host.py",
        "            visit.dismiss(Closed(reason",
        "            print(Closed(reason",
        "tests/session/test_host.py",
    ),
    Mutant(
        "who_leaves_the_queue_keeps_the_number",
        "session/visit.py",
        "        if self._attachment is None:\n            self.end()",
        "        if self._attachment is None:\n            pass",
        ADMISSION,
    ),
    Mutant(
        "an_old_position_follows_the_admission",
        "session/lobby.py",
        "self._pending.extend(self.admission.receive(event, self._clock()))",
        "self._pending.extendleft(reversed(self.admission.receive(event, self._clock())))",
    ),
    Mutant(
        "silence_makes_talking_cheap",
        "session/tariff.py",
        "if rate > IDLE:",
        "if rate >= 0:",
    ),
    Mutant(
        "no_headroom",
        "session/budget.py",
        "return self.lanes[lane].most * (1 - self.headroom)",
        "return self.lanes[lane].most",
    ),
    Mutant(
        "a_dear_session_is_reckoned_like_any",
        "session/admission.py",
        "total(price.at_least(place.own) for place",
        "total(price for place",
    ),
    Mutant(
        "long_sessions_that_go_on_are_forgotten",
        "session/lengths.py",
        "(sum(self._ended) + sum(ages))",
        "sum(self._ended)",
    ),
    Mutant(
        "place_given_back_twice",
        "session/admission.py",
        'raise StateError(f"session {session_id} has no place to give back")',
        "place = Place(session_id=session_id, since_s=0.0, state=PlaceState.QUEUED)",
    ),
    Mutant(
        "token_is_not_rotated",
        "session/lease.py",
        "self._last, self._next = _hashed(token), _hashed(following)",
        "self._last = _hashed(token)",
        "tests/session/test_lease.py",
    ),
    Mutant(
        "token_is_never_spent",
        "session/lease.py",
        "        if self.owns(generation):\n            self._last = None",
        "        return",
        "tests/session/test_lease.py",
    ),
    Mutant(
        "token_is_spent_before_the_next_has_arrived",
        "session/lease.py",
        "self._last, self._next = _hashed(token), _hashed(following)",
        "self._last, self._next = None, _hashed(following)",
        "tests/session/test_lease.py",
    ),
    Mutant(
        "former_owner_loses_the_session",
        "session/lease.py",
        "return self.state is LeaseState.ATTACHED and generation == self.generation",
        "return self.state is LeaseState.ATTACHED",
        "tests/session/test_lease.py",
    ),
    Mutant(
        "wait_for_an_owner_never_ends",
        "session/lease.py",
        "if self.state is not LeaseState.DETACHED or self._until is None or now < self._until:",
        "if True:",
        "tests/session/test_lease.py",
    ),
    Mutant(
        "replay_repeats_the_last_seen",
        "session/journal.py",
        "if entry.sequence > seen]",
        "if entry.sequence >= seen]",
        "tests/session/test_journal.py",
    ),
    Mutant(
        "broken_replay_loses_the_rest",
        "session/journal.py",
        "for entry in (*self._sent, *again) if",
        "for entry in self._sent if",
        "tests/session/test_journal.py",
    ),
    Mutant(
        "replay_takes_a_new_number",
        "session/journal.py",
        "        if not entry.sequence:\n",
        "        if True:\n",
        "tests/session/test_journal.py",
    ),
    Mutant(
        "gap_goes_unnoticed",
        "session/journal.py",
        "if seen < self._lost or not self._whole:",
        "if not self._whole:",
        "tests/session/test_journal.py",
    ),
    Mutant(
        "what_was_dropped_unsent_is_no_gap",
        "session/journal.py",
        "if seen < self._lost or not self._whole:",
        "if seen < self._lost:",
        "tests/session/test_journal.py",
    ),
    Mutant(
        "future_is_believed",
        "session/journal.py",
        "if sequence > self.sequence:",
        "if sequence > self.sequence + 10:",
        "tests/session/test_journal.py",
    ),
    Mutant(
        "replay_holds_interrupted_sound",
        "session/journal.py",
        "self._sent = _without(self._sent, lambda audio: _stale(audio.fence, fence))",
        "self._sent = self._sent",
        "tests/session/test_journal.py",
    ),
    Mutant(
        "journal_grows_without_end",
        "session/journal.py",
        "while len(self._sent) > self._most_kept or self._bytes > self._most_bytes:",
        "while len(self._sent) > 2 * self._most_kept:",
        "tests/session/test_journal.py",
    ),
    Mutant(
        "gap_is_not_made_good",
        "session/runner.py",
        "            journal.restart(self._core.snapshot())",
        "            pass",
        "tests/session/test_host.py",
    ),
    Mutant(
        "former_connection_speaks",
        "session/runner.py",
        "lambda: self._lease.owns(generation))",
        "lambda: True)",
        "tests/session/test_host.py",
    ),
    Mutant(
        "core_is_not_told_of_the_loss",
        "session/runner.py",
        "if held != self._held:",
        "if held != self._held and attached:",
        "tests/session/test_lease_machine.py",
    ),
    Mutant(
        "sound_is_played_to_nobody",
        "session/playback.py",
        "while self._waiting and not self._halted and",
        "while self._waiting and",
        "tests/session/test_playback.py",
    ),
    Mutant(
        "old_generation_goes_on",
        "session/answering.py",
        "        self._generation = generation\n        self.ledgers.go_on",
        "        self.ledgers.go_on",
        "tests/session/test_core.py",
    ),
    Mutant(
        "interrupted_tail_is_sent_again",
        "session/answering.py",
        "return [Abort(fence=stale), answer.silence(heard)]",
        "return [answer.silence(heard)]",
        "tests/session/test_core.py",
    ),
    Mutant(
        "unplayed_counts_as_played",
        "session/playback.py",
        "if self._halted or self._acknowledged:",
        "if self._halted:",
        "tests/session/test_playback.py",
    ),
    Mutant(
        "playing_goes_back",
        "session/playback.py",
        "if samples <= self._clock_samples:",
        "if samples == self._clock_samples:",
        "tests/session/test_playback.py",
    ),
    Mutant(
        "limit_is_announced_again_and_again",
        "session/lifetime.py",
        "                self._warned.add(reason)\n",
        "",
        "tests/session/test_lifetime.py",
    ),
    Mutant(
        "a_stale_turn_commits",
        "state/store.py",
        "        if self._live.get((fence.session_id, fence.lane)) != fence:\n            raise",
        "        if False:\n            raise",
        "tests/state",
    ),
    Mutant(
        "what_was_staged_survives_its_fence",
        "state/store.py",
        "if entry.fence is not None and fence.outdates(entry.fence):",
        "if False:",
        "tests/state",
    ),
    Mutant(
        "a_fence_goes_back",
        "state/store.py",
        "if live is not None and live.outdates(fence):",
        "if False:",
        "tests/state",
    ),
    Mutant(
        "an_alias_counts_twice",
        "state/ledger.py",
        "            if known is None:\n                change[storage.device]",
        "            if True:\n                change[storage.device]",
        "tests/state",
    ),
    Mutant(
        "a_shared_storage_is_freed_by_the_first",
        "state/ledger.py",
        "            if self._sharers[identity] == {holder}:",
        "            if True:",
        "tests/state",
    ),
    Mutant(
        "a_budget_may_be_passed",
        "state/ledger.py",
        "        for device, count in self.short(change).items():",
        "        for device, count in {}.items():",
        "tests/state",
    ),
    Mutant(
        "a_reservation_is_never_taken_back",
        "state/ledger.py",
        "        self._reserved.pop(holder, None)\n",
        "",
        "tests/state",
    ),
    Mutant(
        "the_busy_are_evicted",
        "state/store.py",
        "return entry.fence is None and not entry.value.in_use and entry",
        "return not entry.value.in_use and entry",
        "tests/state",
    ),
    Mutant(
        "what_its_engine_works_on_is_evicted",
        "state/store.py",
        "return entry.fence is None and not entry.value.in_use and entry",
        "return entry.fence is None and entry",
        "tests/state",
    ),
    Mutant(
        "what_cannot_be_made_again_is_evicted",
        "state/store.py",
        " and entry.value.rebuild_s is not None\n",
        "\n",
        "tests/state",
    ),
    Mutant(
        "somebody_is_evicted_in_vain",
        "state/store.py",
        "if any(gained.get(device, 0) < count for device, count in missing.items()):",
        "if False:",
        "tests/state",
    ),
    Mutant(
        "eviction_forgets_what_things_cost",
        "state/eviction.py",
        "self._floor + cost_s / max(1, nbytes)",
        "self._floor",
        "tests/state",
    ),
    Mutant(
        "the_dear_are_kept_for_ever",
        "state/eviction.py",
        "            self._floor = self._worth[chosen]\n",
        "            pass\n",
        "tests/state",
    ),
    Mutant(
        "released_state_leaves_its_bytes",
        "state/store.py",
        "        self.ledger.release(key)\n        entry.value.close()",
        "        entry.value.close()",
        "tests/state",
    ),
    Mutant(
        "a_failed_making_keeps_its_reservation",
        "state/store.py",
        "        except BaseException:\n            self.ledger.release(key)\n",
        "        except BaseException:\n",
        "tests/state",
    ),
    Mutant(
        "the_cut_moves_in_the_middle_of_a_turn",
        "session/conversation.py",
        "        if not in_turn:\n",
        "        if True:\n",
        "tests/session/test_window.py",
    ),
    Mutant(
        "a_cut_leaves_half_an_exchange",
        "session/window.py",
        '        if item.role == "user":\n            newest',
        "        if True:\n            newest",
        "tests/session/test_window.py",
    ),
    Mutant(
        "the_cut_moves_with_every_turn",
        "session/window.py",
        "policy.retention_ratio * room)",
        "room)",
        "tests/session/test_window.py",
    ),
    Mutant(
        "a_prompt_that_was_cut_teaches",
        "session/window.py",
        " and sum(map(self._of_message, messages)) <= self._context:",
        ":",
        "tests/session/test_window.py",
    ),
    Mutant(
        "disabled_truncation_cuts",
        "session/window.py",
        "        if not isinstance(policy, RetentionRatio):\n            return False",
        "        if not isinstance(policy, RetentionRatio):\n            policy = AUTO",
        "tests/session/test_window.py",
    ),
    Mutant(
        "the_cut_dangles_after_a_deletion",
        "session/window.py",
        "            self.begin = following",
        "            pass",
        "tests/session/test_window.py",
    ),
    Mutant(
        "a_refused_item_keeps_its_room",
        "session/holdings.py",
        "elif grown < 0 or (promised and not core.answering.staged_bytes):",
        "elif grown < 0:",
        "tests/session/test_holdings.py",
    ),
    Mutant(
        "a_client_writes_beyond_the_budget",
        "session/holdings.py",
        'wanted, param = item.nbytes, "item"',
        'wanted, param = 0, "item"',
        "tests/session/test_holdings.py",
    ),
    Mutant(
        "instructions_take_no_memory",
        "session/holdings.py",
        "wanted = sys.getsizeof(settings.instructions) - sys",
        "wanted = 0 * sys",
        "tests/session/test_holdings.py",
    ),
    Mutant(
        "a_conversation_without_room_goes_on",
        "session/holdings.py",
        "        except StateFull:\n            return False",
        "        except StateFull:\n            return True",
        "tests/session/test_holdings.py",
    ),
    Mutant(
        "what_a_session_held_stays_in_the_books",
        "session/host.py",
        "        self.states.release(session_id)\n",
        "",
        "tests/session/test_holdings.py",
    ),
    Mutant(
        "a_slot_that_runs_is_evicted",
        "engine/slots.py",
        "        slot.in_use = True\n",
        "",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "two_run_on_one_slot",
        "engine/slots.py",
        "if slot is None or slot.index in self._running:",
        "if slot is None:",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "who_is_awake_comes_first",
        "engine/line.py",
        "            if self._could_run(session_id):\n                return False\n",
        "",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "who_waits_for_its_own_slot_holds_all_up",
        "engine/line.py",
        "            if self._could_run(session_id):\n                return False\n",
        "            return False\n",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "what_was_written_over_counts_as_there",
        "engine/kv.py",
        "            self._committed = min(self._committed, cached)\n",
        "",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "the_slot_of_who_is_gone_is_used_while_it_runs",
        "engine/slots.py",
        "for index in self._free if index not in self._running)\n        self",
        "for index in self._free)\n        self",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "reading_again_is_not_counted",
        "engine/slots.py",
        "            self._lost[key.session_id] = tokens\n",
        "            pass\n",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "the_engine_is_believed_whatever_it_has",
        "engine/slots.py",
        "if tokens != slot.held if slot.held is not None else tokens < slot.length:",
        "if False:",
        "tests/engine/test_slots.py",
    ),
    Mutant(
        "aborted_turns_keep_their_bytes",
        "session/requests.py",
        'self._counters["aborted_bytes"] += self._connector.retire(fence)',
        'self._counters["aborted_bytes"] += 0',
        KERNEL,
    ),
    Mutant(
        "aborted_sound_waits_to_be_sent",
        "session/runner.py",
        'self._counters["aborted_chunks"] += self._outbox.retire(fence)',
        'self._counters["aborted_chunks"] += 0',
        KERNEL,
    ),
    Mutant(
        "aborted_stages_work_on",
        "session/requests.py",
        "        self._orchestrator.abort(fence)\n        self._live.discard(fence)\n\n    def forget",
        "        self._live.discard(fence)\n\n    def forget",
        KERNEL,
    ),
    Mutant(
        "sound_is_stamped_with_its_new_owner",
        "session/runner.py",
        "            fence=effect.fence,\n            response_id",
        "            fence=effect.fence._replace(generation=self._lease.generation),\n            response_id",
        KERNEL,
    ),
    Mutant(
        "a_session_that_fails_leaves_its_stages_at_work",
        "session/runner.py",
        "            self._abort(fence)\n        self._requests.forget",
        "            pass\n        self._requests.forget",
        KERNEL,
    ),
    Mutant(
        "a_lost_report_goes_unnoticed",
        "session/runner.py",
        '            self.close("overloaded")',
        "            pass",
        KERNEL,
    ),
    Mutant(
        "what_finds_no_room_is_lost_in_silence",
        "session/runner.py",
        '            self.close("slow_reader")',
        "            pass",
        KERNEL,
    ),
    Mutant(
        "what_finds_no_room_while_nobody_listens_is_no_gap",
        "session/runner.py",
        "            self._outbox.journal.drop()\n        else",
        "            pass\n        else",
        "tests/session/test_host.py",
    ),
    Mutant(
        "nobody_tells_the_session_of_a_loss",
        "session/runner.py",
        '                self.close("disconnected")\n            self._mailbox.nudge()',
        '                self.close("disconnected")',
        KERNEL,
    ),
    Mutant(
        "nobody_tells_the_session_of_a_return",
        "session/runner.py",
        "        self._outbox.hand_over(generation)\n        self._mailbox.nudge()",
        "        self._outbox.hand_over(generation)",
        KERNEL,
    ),
    Mutant(
        "a_number_from_the_future_costs_the_token",
        "session/runner.py",
        "        journal.check(seen)\n",
        "",
        KERNEL,
    ),
    Mutant(
        "a_former_connection_acknowledges",
        "session/runner.py",
        "        if self._lease.owns(generation):\n            self._outbox",
        "        if True:\n            self._outbox",
        KERNEL,
    ),
    Mutant(
        "the_former_connection_reads_on",
        "session/outbox.py",
        "while owner == self.owner:",
        "while True:",
        KERNEL,
    ),
    Mutant(
        "the_former_connection_is_not_let_go",
        "session/outbox.py",
        "        self.owner = owner\n        self._wake.set()",
        "        self.owner = owner",
        KERNEL,
    ),
    Mutant(
        "the_former_connection_is_not_told_why",
        "session/attachment.py",
        "if entry is None and self._runner.replaced(self.generation):",
        "if entry is None and not self._runner.replaced(self.generation):",
        KERNEL,
    ),
    Mutant(
        "a_lost_connection_is_kept_as_long_as_its_session",
        "session/attachment.py",
        "return self.grace_s > 0",
        "return False",
        KERNEL,
    ),
    Mutant(
        "a_connection_is_let_go_before_its_session",
        "session/host.py",
        "            if not port.detach():\n                await over.wait()",
        "            port.detach()",
        "tests/session/test_host.py",
    ),
    Mutant(
        "what_was_agreed_is_forgotten",
        "session/host.py",
        "wire=self.terms.wire",
        "wire=None",
        KERNEL,
    ),
    Mutant(
        "a_session_begins_in_a_server_that_ends",
        "session/host.py",
        "        if self._closing.is_set():  # between its admission and this line\n            runner.close",
        "        if self._closing.is_set():  # between its admission and this line\n            str",
        "tests/session/test_host.py",
    ),
    Mutant(
        "who_never_began_is_never_through",
        "session/host.py",
        "living.add_done_callback(lambda _: self._through(visit, over))",
        "living.add_done_callback(lambda one: None if one.cancelled() else self._through(visit, over))",
        KERNEL,
    ),
    Mutant(
        "a_cancelled_host_lets_people_in",
        "session/host.py",
        "self.close()  # Something else",
        "pass  # Something else",
        "tests/session/test_host.py",
    ),
    Mutant(
        "an_earlier_moment_does_not_count",
        "session/lobby.py",
        "if self._timer.when() == deadline:",
        "if deadline is not None:",
        KERNEL,
    ),
    Mutant(
        "what_was_sent_in_the_queue_is_never_taken",
        "session/visit.py",
        "        self._attachment = attachment\n        self._settled.set()",
        "        self._attachment = attachment",
        KERNEL,
    ),
    Mutant(
        "aborted_sound_is_sent_by_the_journal",
        "session/journal.py",
        "self._waiting = _without(self._waiting, lambda audio: _stale(audio.fence, fence))",
        "self._waiting = self._waiting",
        KERNEL,
    ),
    Mutant(
        "who_comes_back_finds_no_room",
        "session/journal.py",
        "if 2 * (len(wanted) + len(fresh)) > self._most_waiting:",
        "if False:",
        "tests/session/test_journal.py",
    ),
    Mutant(
        "last_words_pile_up",
        "session/mailbox.py",
        "        if self._last_word is None:\n            self._last_word = event",
        "        self._reports.appendleft(event)  # type: ignore[arg-type]",
        "tests/session/test_mailbox.py",
    ),
    Mutant(
        "whoever_waits_for_room_waits_for_ever",
        "session/mailbox.py",
        "        while self.take(clients=True) is not None:\n            pass",
        "        self._events.clear()",
        "tests/session/test_mailbox.py",
    ),
    Mutant(
        "a_stopped_request_is_still_reported",
        "orchestrator/runner.py",
        "        self._receivers.pop(fence, None)\n        self._happened(Abort",
        "        self._happened(Abort",
        KERNEL,
    ),
    Mutant(
        "what_nobody_wants_is_kept",
        "orchestrator/runner.py",
        "                    self._connector.take(handle)",
        "                    pass",
        KERNEL,
    ),
    Mutant(
        "the_end_of_a_cancelled_session_is_not_booked",
        "session/runner.py",
        "            self._settle()\n\n    def _give_back",
        "            pass\n\n    def _give_back",
        "tests/session/test_host.py",
    ),
    Mutant(
        "a_conversation_is_counted_for_ever",
        "session/host.py",
        "        self.states.release(session_id)\n",
        "",
        KERNEL,
    ),
    Mutant(
        "bytes_that_are_read_are_given_back",
        "connector/slots.py",
        "return sum(taken.values()), taken != _counts(row[_ROW:], tag)",
        "return sum(taken.values()), False",
        SHARED,
    ),
    Mutant(
        "a_cell_of_another_generation_counts",
        "connector/slots.py",
        "        if words[word] != generation:\n            return Claim.GONE\n        row, tag",
        "        row, tag",
        SHARED,
    ),
    Mutant(
        "a_payload_is_taken_twice",
        "connector/slots.py",
        "if counts and sum(counts.values()) >= self.readers(slot, generation):",
        "if False:",
        SHARED,
    ),
    Mutant(
        "the_dead_read_for_ever",
        "connector/arena.py",
        "            self.table.excuse(slot.number, slot.generation, number)",
        "            pass",
        SHARED,
    ),
    Mutant(
        "tags_that_begin_anew_find_old_cells",
        "connector/arena.py",
        "            self.table.clear(number)\n            generation += 1",
        "            pass",
        "tests/connector/test_shm.py",
    ),
    Mutant(
        "a_payload_that_is_written_is_given_back",
        "connector/arena.py",
        "        if slot.writing:\n            return False\n",
        "",
        "tests/connector/test_shm.py",
    ),
    Mutant(
        "a_retired_fence_is_read_by_a_peer",
        "connector/shm.py",
        "            if self._retired.has(handle.fence):\n                raise UnknownHandle",
        "            if False:\n                raise UnknownHandle",
        SHARED,
    ),
    Mutant(
        "a_full_arena_does_not_look_who_is_done",
        "connector/arena.py",
        "            self.sweep()\n            offset = self._extents",
        "            offset = self._extents",
        "tests/connector/test_shm.py",
    ),
    Mutant(
        "neighbours_stay_apart",
        "connector/extents.py",
        "if number and self._ends[number - 1] == start:",
        "if False:",
        "tests/connector/test_extents.py",
    ),
    Mutant(
        "an_earlier_turn_is_not_retired_with_the_later",
        "connector/retired.py",
        "newest is not None and not fence.outdates(newest)",
        "newest == fence",
        SHARED,
    ),
    Mutant(
        "arrays_of_any_dtype_are_samples",
        "connector/codec.py",
        "    if DTYPES[name] is not dtype or len(shape) != axes:",
        "    if len(shape) != axes:",
        "tests/connector/test_codec.py",
    ),
    Mutant(
        "views_of_one_process_are_released_once",
        "connector/window.py",
        "        while count != len(done):\n            count = len(done)\n",
        "        while count != 1:\n            count = 1\n",
        "tests/connector/test_shm.py",
    ),
]


def tried(mutant: Mutant, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a mutant's own copy of the source."""
    copy = folder / "checkout"
    for room in ("session", "orchestrator", "connector", "engine", "state"):
        shutil.copytree(ROOT / "duplex" / room, copy / "duplex" / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("duplex/__init__.py", "duplex/errors.py", "pyproject.toml"):
        shutil.copy(ROOT / file, copy / file)
    of_file = mutant.tests.rpartition("/")[0] if mutant.tests.endswith(".py") else mutant.tests
    for tests in {of_file, "tests/session"} if of_file == KERNEL else {of_file}:
        shutil.copytree(ROOT / tests, copy / tests, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests" / "mutants_conftest.py", copy / "tests" / "conftest.py")
    source = copy / "duplex" / mutant.file
    text = source.read_text()
    assert text.count(mutant.old) == 1, f"{mutant.name}: the source has changed; write the mutant anew"
    source.write_text(text.replace(mutant.old, mutant.new))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", mutant.tests]
    return subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def trials(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[subprocess.CompletedProcess[str]]]]:
    """Every mutant that is asked for, tried on all cores: one trial keeps one busy."""
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    asked: list[Mutant] = [item.callspec.params["mutant"] for item in tests if item.function is test_is_killed]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield {mutant.name: pool.submit(tried, mutant, tmp_path_factory.mktemp(mutant.name)) for mutant in asked}
        pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_is_killed(mutant: Mutant, trials: dict[str, Future[subprocess.CompletedProcess[str]]]) -> None:
    run = trials[mutant.name].result()
    assert run.returncode == 1, f"{mutant.name} survives:\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
    assert "failed" in run.stdout, run.stdout
