"""`FROM configs` against another way to tell what an image takes: no change is missed, and none is made up."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.plan import Action
from reconciler.reconcile.history import History
from reconciler.reconcile.preview import Preview
from reconciler.reconcile.targets import Scope
from tests.fakes import FakeObjects
from tests.unit.reconcile.test_baseline import KeptInMemory
from tests.unit.reconcile.test_configs import CONFIGS, PLAIN, cells, machine_config, without


@dataclass(frozen=True)
class Draft:
    """A MachineConfig, as simple as can be: one file, or faults."""

    name: str
    role: str
    arch: str
    path: str
    text: str
    coded: bool
    broken: bool

    def write(self) -> str:
        """As a document."""
        packed = base64.b64encode(self.text.encode()).decode()
        contents = f"data:;base64,{packed}" if self.coded else f"data:,{self.text}"
        labels = f", reconciler.machineos.dev/arch: {self.arch}" if self.arch else ""
        made = machine_config(self.name, self.role, contents, path=self.path, labels=labels)
        return made.replace("storage:", "other:") if self.broken else made


drafts = st.builds(
    Draft,
    name=st.sampled_from(["10-a", "20-b", "30-c"]),
    role=st.sampled_from(["worker", "worker", "infra", "master"]),
    arch=st.sampled_from(["", "", "arm64"]),
    path=st.sampled_from(["/etc/x", "/etc/y"]),
    text=st.sampled_from(["1", "2"]),
    coded=st.booleans(),
    broken=st.sampled_from([False] * 7 + [True]),
)
PLACES = ["m/1.yaml", "m/2.yml", "p/worker/m.yaml", "p/plain/m.yaml"]
Trees = dict[str, Draft]


def files_of(tree: Trees, text: str) -> dict[str, bytes | str]:
    """A commit's files; pool `worker` has this Containerfile."""
    start = without("machines/a.yaml") | {"p/worker/Containerfile": text}
    return start | {path: draft.write() for path, draft in tree.items()}


def worth(tree: Trees, pool: str, arch: str) -> object:
    """What a pool's image takes of it, told in another way; None when that cannot be told."""
    roles = {"worker": {"worker"}, "infra": {"infra", "worker"}}[pool]
    own = [d for d in tree.values() if d.role in roles and d.arch in ("", arch)]
    if any(d.broken for d in own) or len({d.name for d in own}) < len(own):
        return None
    found: dict[str, str] = {}
    for draft in sorted(own, key=lambda d: (d.role != "worker", d.name)):
        found[draft.path] = draft.text
    return found


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[Trees, str]]:
    """Commits, each some edits away from an earlier one."""
    made: list[tuple[Trees, str]] = [(draw(st.dictionaries(st.sampled_from(PLACES), drafts)), CONFIGS)]
    for _ in range(draw(st.integers(1, 4))):
        tree, text = draw(st.sampled_from(made))
        tree = dict(tree)
        for path in draw(st.sets(st.sampled_from(PLACES), max_size=2)):
            change = draw(st.one_of(st.none(), drafts))
            if change is None:
                tree.pop(path, None)
            elif path in tree and draw(st.booleans()):
                tree[path] = replace(tree[path], coded=change.coded, text=change.text)
            else:
                tree[path] = change
        text = draw(st.sampled_from([text, text, text, CONFIGS, PLAIN, CONFIGS + "ENV A=1\n"]))
        made.append((tree, text))
    return made


def expected(before: tuple[Trees, str], after: tuple[Trees, str]) -> Iterable[tuple[str, Action]]:
    """What a change does to each image, told in another way."""
    for pool in ("infra", "worker"):
        for arch in ("amd64", "arm64"):
            old, new = (text if pool == "worker" else CONFIGS for _, text in (before, after))
            now = worth(after[0], pool, arch) if "configs" in new else ""
            was = worth(before[0], pool, arch) if "configs" in old else ""
            action = Action.REUSE if (was, old) == (now, new) else Action.BUILD
            yield f"{pool}/{arch}", Action.BLOCKED if now is None else action


@settings(deadline=None, max_examples=150)
@given(stories(), st.data())
def test_no_change_is_missed_and_none_is_made_up(story: list[tuple[Trees, str]], data: st.DataObject) -> None:
    objects = FakeObjects([files_of(*one) for one in story])
    kept, lasting = KeptInMemory(), History(objects)
    number = st.integers(1, len(story))
    first = f"{data.draw(number):040x}"
    Preview(History(objects, kept=kept), Scope(), worth=1).plan(first, first)
    for _ in range(3):
        old, new = data.draw(number), data.draw(number)
        base, head = f"{old:040x}", f"{new:040x}"
        truth = Preview(History(objects), Scope()).plan(head, base)
        assert Preview(History(objects, kept=kept), Scope(), worth=1).plan(head, base) == truth
        assert Preview(lasting, Scope()).plan(head, base) == truth
        lasting.settle()
        found = {name: cell.action for name, cell in cells(truth).items() if not name.startswith("plain")}
        assert found == dict(expected(story[old - 1], story[new - 1]))
