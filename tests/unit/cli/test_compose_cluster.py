"""As which objects builds run, by the settings."""

from __future__ import annotations

import pytest

from reconciler.adapters.builders.job.form import JOBS
from reconciler.adapters.builders.openshift import BUILDS
from reconciler.cli.compose_cluster import form_of
from reconciler.errors import ClusterError
from reconciler.settings import BuilderSettings, BuilderType, JobSettings, Settings, Source, WriteBack

HIGH = JobSettings(priority_class="high", attempts=3)


def settings(kind: BuilderType, job: JobSettings) -> Settings:
    return Settings(Source("/srv/a.git"), WriteBack("main"), builder=BuilderSettings(kind, job=job))


def test_each_type_has_its_own() -> None:
    assert form_of(settings(BuilderType.JOB, HIGH)) is JOBS
    assert form_of(settings(BuilderType.OPENSHIFT, JobSettings())) is BUILDS


def test_what_a_build_cannot_be_told_is_refused_by_name() -> None:
    with pytest.raises(
        ClusterError, match=r"no place for builder\.job\.priorityClass, builder\.job\.attempts"
    ):
        form_of(settings(BuilderType.OPENSHIFT, HIGH))
