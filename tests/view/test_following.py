"""Following a study from its journal while it grows, is deleted, or is another one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from etude.core.errors import JournalError, NotAStudyError
from etude.testing.written import Written, begin_study, write_study
from etude.view.following import Follower, Known

TRIALS = [Written({"lr": n / 10}, 0.5 + n / 100, curve=[0.1, 0.2]) for n in range(6)]


def told(follower: Follower, known: Known) -> tuple[Known, Any]:
    known, news = follower.news(known)
    return known, None if news is None else json.loads(news)


def test_what_a_driver_adds_is_told_once_and_as_it_comes(tmp_path: Path) -> None:
    journal, facts = begin_study(tmp_path / "s", TRIALS)
    follower, known, seen = Follower(tmp_path / "s"), Known(), []
    for nth in range(0, len(facts), 7):
        journal.append(facts[nth : nth + 7])
        follower.look()
        known, news = told(follower, known)
        seen += [row[0] for row in news["trials"]]
        assert news["whole"] == (nth == 0)
        assert follower.head()["standing"] == "at work"
    assert told(follower, known) == (known, None)
    assert not follower.look(), "nobody has written anything"
    assert known.seq == len(facts)
    assert sorted(set(seen)) == [0, 1, 2, 3, 4, 5]
    journal.lease.release()
    assert follower.look(), "nobody works on it any more"
    head = follower.head()
    assert (head["standing"], head["counts"], head["trouble"]) == ("complete", {"finished": 6}, "")
    assert head["says"][:2] == ["Study s: 6 trials (6 finished).", "Best accuracy: 0.55 in trial 5 with lr=0.5."]
    journal.close()
    follower.close()


def test_who_begins_with_a_study_that_can_be_read_has_read_it_and_others_are_refused(tmp_path: Path) -> None:
    follower = Follower.begin(write_study(tmp_path / "study", TRIALS))
    assert follower.head()["counts"] == {"finished": 6}
    assert not follower.look(), "nothing is new, and it is not read again"
    follower.close()
    with pytest.raises(NotAStudyError) as refused:
        Follower.begin(str(tmp_path))
    assert str(refused.value).endswith("There are studies in it, so give one of them: study.")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "journal.sqlite").write_bytes(b"nonsense " * 100)
    with pytest.raises(JournalError, match="it is no SQLite file"):
        Follower.begin(tmp_path / "broken")


def test_a_viewer_that_comes_back_is_told_the_rest_and_one_of_another_edition_all(tmp_path: Path) -> None:
    follower = Follower(write_study(tmp_path / "s", TRIALS))
    follower.look()
    known, _ = told(follower, Known())
    assert Known.read(known.text) == known
    assert told(follower, Known.read(known.text)) == (known, None)
    assert len(told(follower, Known(known.edition, known.seq - 5))[1]["trials"]) < 6
    restarted = Follower(tmp_path / "s")
    restarted.look()
    again, news = told(restarted, known)
    assert (again.seq, news["whole"], len(news["trials"])) == (known.seq, True, 6)
    for nonsense in ("", ".", "x.-1", "x.1e3", "x.²", "y"):
        assert Known.read(nonsense).seq == 0
    follower.close()
    restarted.close()


def test_a_study_that_is_deleted_stays_on_the_page_and_says_so(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "s", TRIALS)
    follower = Follower(folder)
    follower.look()
    known, _ = told(follower, Known())
    shutil.rmtree(folder)
    assert follower.look()
    assert not follower.look()
    assert follower.trouble == f"{folder} is no longer there. What is shown was read before."
    assert follower.head()["counts"] == {"finished": 6}
    assert told(follower, known) == (known, None)

    write_study(folder, TRIALS[:2])
    follower.look()
    assert follower.trouble == ""
    known, news = told(follower, known)
    assert (news["whole"], len(news["trials"])) == (True, 2)
    follower.close()


def test_a_file_that_is_no_journal_is_said_and_forgotten_when_it_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "journal.sqlite").write_bytes(b"nonsense " * 100)
    follower = Follower(folder)
    follower.look()
    assert "it is no SQLite file" in follower.trouble
    assert follower.news(Known()) == (Known(), None)
    assert follower.head()["name"] == "s"
    shutil.rmtree(folder)
    write_study(folder, TRIALS)
    follower.look()
    assert (follower.trouble, follower.board.seq > 0) == ("", True)
    follower.close()
