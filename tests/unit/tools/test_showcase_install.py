"""How the tools install the chart on the local cluster."""

from showcase.install import image_options


def test_tag_of_digits_stays_a_string() -> None:
    """A tag is a part of a hash: one of 280 has digits only, and helm rejects a number."""
    tags = {"operator": "12e4", "extender": "179295601967", "devicePlugin": "0a", "scheduler": "v1"}
    images = {name: f"localhost:5000/{name}:{tag}" for name, tag in tags.items()}
    option, settings = image_options(images | {"workload": "localhost/x:1"})
    assert option == "--set-string"
    assert settings.split(",")[2:4] == [
        "extender.image.repository=localhost:5000/extender",
        "extender.image.tag=179295601967",
    ]
    assert len(settings.split(",")) == 8


def test_page_gets_its_image_if_the_revision_has_a_page() -> None:
    images = dict.fromkeys(("operator", "extender", "devicePlugin", "scheduler"), "localhost/a:1")
    _, without = image_options(images)
    assert "web" not in without
    _, settings = image_options(images | {"web": "localhost/gputopo-web:2"})
    assert settings == f"{without},web.image.repository=localhost/gputopo-web,web.image.tag=2"
