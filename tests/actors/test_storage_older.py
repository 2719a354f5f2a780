"""A directory that an older version has left behind is read, with all that it holds: here one is recorded."""

from __future__ import annotations

import base64
import io
import tarfile
from pathlib import Path

import pytest

from actors.queue.state.stage import Stage
from actors.storage import Storage, verify_storage

RECORDED = """
/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4E//BiRdADGbCkOX8BK99tnqTf3WB+ouoAUWHCCM3rqPmNSavashYWVriFFGXW5KWrKSHkGJd1ZWiXPlr1uh
djZ+3Xwt6TupsTE2PskR+QtYsD9XklQTbdnw6UCe2rG83WP1dJtdd/Z1+CpTeG6zrYpEZg4IWw1UGbZ2KAbh86ukF9Hzgo2DtU8wiqvlYbA4bKFIQbzi
94aSF0p5mWjZxvrtV1A/qBCHaVxYzXC0t7gmpXC36v2V69ReqRbZxTNNyCsiZ/k2Ik8IzfJJB3GeVQVqY9peDAXvHIsFJjSO9vWponSZkk92ScQlaPkA
Zf4yKB8BDDfcwTvU6HHt+JblreTne7CmWJ3gwgLQiiUPgUb5UZo1nbhj+iOTuLvQsiTNWwuQ6AIZvbOo3TWba91rUMBf1CbLf6zyjT3g+3YXBCqPSbHt
FQ5X7/m52jkQ/MPF+LATw+HFPs4Qkv9pffgJyvYHaoscdcuzzdHhqc540EVXoPsV5n4ElVNVHykeuhZCbk50ZfuEJujU10wa3kmPtIQQ3ogumWzNpap8
HmVxU6aQZUYCEn/lxE3QPK7xHVaZtPoXvEFy+UfIEh36dqXLlQdTedaifBkDAqo41FPKZrmRu4+GPImGo858xk2VLbR7ym1Y/nODKdMx2KaSB2V5iMtr
/qzHGuBjVnQwRVw6JVyVHXnx8On+uUFEoIWcQ8iY7OkHsRZdV/EIS56+feQGm5U0LNTIiDTPXyMATNisxmDULNb5MzXRxrKkT+mZGBqhhuMnUp7EmZEy
gZFDVybRBLDPP1MuqmddzhQoMIlhFNyehWi4BYW4AD+S07u89m6fIjq3XPSqe06OqKhdOYSlt2qrt61Rz/Plc4Rq0pdBfaa7cqsJfCGKIQxGNnMOAFkh
BCkuBmcY+iKD976x0tV4ayWjPQ8yDcQVqShnbvKIMdUHtd6NDgxeZTFeSnmnsYff1p8oT94O3CaOEAs5L34Qr6+3hpanJniGGAYClMYHMI7piYnfB4TO
H3gBEJ3iE6VsoryZbYP6ABamSChuVz7OsYHYkjRa1unFsaz2000XhyD4oHxyrQzNb3AKPu22+Je4ZraNUXoBuPqT7/yEk0yrrV+gq0P7EIcoI6r9K2t8
2Zp2Bx9hkgRZ+GhsBxpeFYCCRrekbG3DlCK/AombIQTMsWf22/c6hxko/Bo2fF5wn+fQpZyg+LjNlcjbJctvVbjndrOM6EzliUM69+0CQrQbrOS0uuTo
v3Y1CWT5Gt9AoSg7D8spbvx9xKaVL4szOUnuETiLpU/9hKp5zwuNrLacUkU4eCilD62VXSS0cmfdoSNgpGk4ek62a0qEY9YOD8kf5/dhxlorWXsc2ON9
4qmGH5yoK8VwFRwqUJ25gUmA2vcSDIsDTfkL9N0wInLTEb/IGu98nIkHux9U3/8fbSrKITldmuBheKFRnzEI2Xi58O77at+p78Y5RFPfZFxbMJOOTHvW
Ug1+Ocol9fhLAA/lG/2eH4NF0sQx6BhzcopiieZa39X/9zc5ou1Px/13YjXlxShYd74UdR1bkBouYoKqwrORv1R2aEMotZVBI6WOGEh77BkwSwgZ8Jyf
CzlzCm6I6QH4ksIx/Vs617ju5oynp6MjGONGT+ACZuW+t3f+avfl2AOQ3eTkX3sEmdkoE91NMqjS6zS3NbW4dJxXviaf6IEhQcE50Gk5r4HEdNxDl2fl
nLtjapgwa2albACpW0etNuxG/mV/O8ZtN03lYe3n30zd+3solFa+9A00NGQMg+siwVYtK7wrVg8TmIPNSGjZqFuoDK1Q3e+XX/r6iIaVTAAgqDdROllR
TVpJJxTQ1yOsAv6oK9ozVmcwpkcMfbUW7vEmlER20N/UE7ZcSrKnBIvbOqDSpBF96PTqYpIUURSjuDxsgO6nuhY0UtBYaltq+yz5O7VWNDxIm6JjpBj2
5FnRbNb/RCiR7EKZ5FrNSPiVKQWV2BbKdyikiMc1qPa06RdznxkLxYeaGkzfph9bz1rqS3IfjTvcn/galGZv1ONL9upXyeEq32CpVjBlwGDUXXdHhaxi
gscdRmmZVoM2xxX4TGe5BUN2eVf67pt3CxuoI3sQbxREAQwDAADu1K/iWAyS/AABwAyAoAEAcv13OrHEZ/sCAAAAAARZWg==
"""
"""A tar archive of two directories, packed by xz, that the version before temporary producers, deleted subscriptions and the note of the
newest segment has written: ``killed``, which has only the log, and ``closed``, the same with a checkpoint at its end. A queue of 12
batches of 4 messages and a delayed one of 2, some acknowledged, some given back, some reserved; a transaction that was committed, and one
that is open; and a queue for dead letters."""

BEFORE_TOGETHER = """
/Td6WFoAAATm1rRGAgAhARwAAAAQz1jM4i//BcddADGbCkOX8BK+eBXdJcZfbRlpvQedYtrGNoIk2XTdHjVld2GlIxz5pXgJGaHqE5PFVT0GuTDWhl1cfo33
7o6B3p7+cJT0LYuiKYfqlTBsWHb761PICycogxw6MtldR5M8eztcCwHiAajCegL78AX6EvdwS4pCunpQvfox6Wi478TG096vFcRESRPTJa5d38RESG6CGVhU
eb0oRqgT95l97GaL8rAo+8esP3W1CpCiq989cnLJ1kT5rJPosyHvhZ4VQHTdZ/Qy2TCEYndz31nzeORw+a838s9WAnoAsIeGfuE+IvLM1j3MCsWePeNpVAIa
c9lnpMgd+LY9ON+78yp730kqMcXieTHvpJ+cnaIpp1EQO+GB6FaEaWBbN5ljgHI3CqJyGYjdQSRLiIoDENNSiUOQI0gReEaRT7wMgDeSNQIkLBXrKf36QOfC
LhQCXPBD2B2cXF0hyri9uSj1BlixPSWd0y18edesVm2qv6RUm6LpyluI+hHtDQP21mAa7HouAmAxu/ADOseqJPnU6/8dFJWVho5pZGpN6cU6lUNkKpXFSFMi
XMsuSlrvTehTfiSwjrussaZZTz7FZhdEyhmgNt7cBDI+XB1ob/vmm30+P0OmtIfgn0Cye5f8uKIK1o2cs4CMoXX+xBxX2Wg2bMcCi6H3TG6LYR10EYDY0nV8
aw+OrGIPhpqdaSgOFVDAAN+MR/4cfvVfzE29qtvXvHAexmVTFtCBem+IPAHVZ65Wzfo8TzfhdRl+NKxWus7pqf86oxDcfHkFSdpXmyc2IbfpuStZkS6aMww+
Qb66BAPbp+S9nVNcSlbwPhtvgO+yp4EGyQFAFoQM93HJQQ0sR7YV5OAlhs8nwNyFUekHIr0wMmWXQTotzuw+4I71o8luKm7tdU+7gX1WwuAZpsA8urBnbmyX
JL5COHLdDXXb03eHYdVi6W4ZiD0gwA8FhqgZARss8Hg/NeaYVTwVndeNABFD4GkdF72jb2isOH4oFsZ+tJ2/TKsoemIoRkSdH1iqzjNFTs7BSt/LGHgkDjmm
gm72HV5UVyc4pnSw1Z4n7Ac17ZmnBdXos8Lmj5TXSg9A87R8TFzAMhbJwRNkemRuinrQKBiSJ1fRj9OwF1tcbQMytO/KxAOHm2kYHZO376R8wo1XR4VE9AVj
LK2WJYqliynoSasRcTJSJw8FT+/TSQeyPoc1FQJIBOw+wxDyMmRNpaJtimYXDveLs/pHANRMTrcG8e1Zan5O3ipZkJoKTSPLvRm0te4yrQQBcQD21s9F2hNN
50hj35YsTqThA5zw8F8dqxJNn/uCPTorKay+vEPN6E02Y0apsG0CCTAirIsmbXwX1mtCy/RrQ5ioSecoydqTWQRMOAyp+axRQ+dI0bTWOf0G1bZ1izw9Kz48
yc4r9sG4ZzeEFYKlLzLNMP7gZAA7hKYYvUw6r/dqw3dGow0Hbb7FbvwFLtUI4gfBbc9NFy9NWiJ3kDjBnsAXlku0GXeSB8aogSJZKJBdTGevHW83mEZoFCio
EFmIlPTm3wm4I0hpdodP+lS+9Jk17nfYrTlZzlz2KgZVG48m7A3gi8nWSBT8wad5ElSLSQAJ9J1LIjkVL7S9QMi23dNm8q64vv4bNA/g58yw9AmwLn/rjcf2
voOu2xu48DgvlQbb0JLNN+Bwsd9wEnZ6olkEdyv7O4Pd4vWEIHUu0DlUZXyoP58JewVl8o67kJYzhtiv3FGn55pcB1E5cwbDYiFIW2H0squsTb1mJDnx6LT+
GAk/SKkNQsCxeEnWPlYfIRMMsLP456LAeqEIJRStIYFsrLq3RG6VB+FZedafSvytsJ6m5gKSj67h+C2+HDvH2cIehzG1B4N6r5pV4jJTPGLNniCzsZsXp5lS
aR9qAYTNorOJrFt96dq0YEOCCv4+Ze15ZnF/SPzg9U1T84TGc8XcWv0vKMWpa7pYvKunjDmqhjnyLRP3F4N/BmKDHibLAAAAww4TxKXKMJEAAeMLgOAIAHNg
N6ixxGf7AgAAAAAEWVo=
"""
"""Likewise of the version before events of several queues had one way to be recorded: dead letters that went from ``left`` to ``dead``, and
one of a queue that was deleted then; a transaction over two queues, of which some stages lost and one lies in a third queue; one that is
open, one that was given up, and a commit without any stage."""


def unpacked(recorded: str, directory: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(recorded)), mode="r:xz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                (directory / member.name).parent.mkdir(exist_ok=True)
                (directory / member.name).write_bytes(content.read())


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_dead_letters_and_commits_of_the_version_before_are_read(how: str, tmp_path: Path) -> None:
    unpacked(BEFORE_TOGETHER, tmp_path)
    assert verify_storage(tmp_path / how) == []
    for _ in range(2):
        storage = Storage.open(tmp_path / how)
        assert list(storage.versions) == [("w", 3), ("v", 7)]
        left, right, dead = storage.queues
        assert [left.name, right.name, dead.name] == ["left", "right", "dead"]
        assert [list(queue.log.acknowledged) for queue in storage.queues] == [
            [(0, 2), (3, 4), (6, 8)],
            [(5, 6)],
            [(3, 5)],
        ]
        assert [
            (queue.log.next_sequence, queue.log.stored_messages, queue.log.stored_batches, queue.log.stored_bytes)
            for queue in storage.queues
        ] == [(8, 3, 2, 182), (6, 4, 2, 192), (5, 3, 3, 227)]
        assert [
            (log.total_in, log.total_acknowledged, log.total_dead_lettered, log.total_discarded)
            for log in (left.log, right.log, dead.log)
        ] == [(6, 1, 2, 2), (4, 0, 0, 1), (3, 0, 0, 2)]
        assert {tuple(key): (stage.messages, stage.bytes) for key, stage in right.log.stages.items()} == {
            ("w", 4, "o"): (1, 78)
        }
        assert not left.log.stages
        assert not dead.log.stages
        letters = [entry for entry in map(dead.log.table.at, range(3)) if entry is not None]
        assert [bytes(entry.batch.payloads[0]) for entry in letters] == [b"b", b"d", b"x"]
        storage._journal.abandon()


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_a_directory_of_an_older_version_is_read(how: str, tmp_path: Path) -> None:
    unpacked(RECORDED, tmp_path)
    assert verify_storage(tmp_path / how) == []
    for _ in range(2):
        storage = Storage.open(tmp_path / how)
        assert [(queue.number, queue.name) for queue in storage.queues] == [(0, "q"), (1, "dead")]
        assert list(storage.versions) == [("w", 1)]
        assert storage.store_id != 0
        queue, dead = storage.queues
        assert queue.settings is not None
        assert (queue.settings.max_receives, queue.settings.dead_letter_queue) == (3, "dead")
        assert dead.settings is None
        log = queue.log
        assert log.next_sequence == 57
        assert list(log.acknowledged) == [(0, 7), (9, 10), (52, 54)]
        assert log.stored() == [(7, 9), (10, 52)]
        assert (log.stored_messages, log.stored_batches, log.stored_bytes) == (44, 13, 1292)
        assert (log.total_in, log.total_acknowledged, log.total_discarded) == (52, 8, 2)
        assert list(log.producers.items()) == [("producer", 50)]
        assert not log.temporary
        assert list(log.returns) == [(11, 13, 1)]
        assert log.delayed == {48: (50, 3_600_003_000)}
        ledger = log.ledgers["sub"]
        assert ledger.facts() == ["sub", 1, 2, 0, 30.0]
        assert (ledger.high, ledger.opened_us) == (6, 0)
        assert [segment[1:3] for segment in ledger.all_segments()] == [(20, 24)]
        assert (log.deleted_epoch, log.deleted_position) == (0, 0)
        ((key, stage),) = log.stages.items()
        held = Stage()
        held.add(54, 57, 92)
        assert (tuple(key), stage) == (("w", 2, "c"), held)
        entry = log.table.at(20)
        assert entry is not None
        assert [bytes(payload) for payload in entry.batch.payloads] == [b"m20", b"m21", b"m22", b"m23"]
        storage._journal.abandon()
