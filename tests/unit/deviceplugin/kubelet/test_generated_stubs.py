import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_committed_stubs_equal_the_generated_ones(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools/generate-stubs", tmp_path], check=True)
    generated = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.py*"))
    assert len(generated) == 8
    for path in generated:
        committed = (ROOT / "deviceplugin" / path).read_text()
        assert committed == (tmp_path / path).read_text(), path
