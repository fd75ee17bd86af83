"""Writers of data formats by their published layouts, with numpy and struct; and rows made of
documents, each packing in its plainest form."""

import gzip
import json
import struct

import numpy
import zstandard

IGNORED = -100
MEGATRON_CODES = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "f8": 6, "f4": 7, "u2": 8}


def joined(documents):
    return numpy.concatenate([ids for ids, _ in documents])


def flat(path, documents, dtype="<i4"):
    joined(documents).astype(dtype).tofile(path)


def npy(path, documents):
    numpy.save(path, joined(documents).astype("<u2"))


def llm_c(path, documents, dtype):
    """karpathy/llm.c: dev/data/data_common.py, write_datafile."""
    magic, version = {"<u2": (20240520, 1), "<u4": (20240801, 7)}[dtype]
    ids = joined(documents)
    header = numpy.zeros(256, "<i4")
    header[:3] = magic, version, len(ids)
    path.write_bytes(header.tobytes() + ids.astype(dtype).tobytes())


def megatron(prefix, documents, dtype):
    """Megatron-LM: core/datasets/indexed_dataset.py, _IndexWriter; one sequence per document."""
    lengths = numpy.array([len(ids) for ids, _ in documents], "<i4")
    width = numpy.dtype(dtype).itemsize
    pointers = (numpy.cumsum(lengths) - lengths).astype("<i8") * width
    index = b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, MEGATRON_CODES[dtype])
    index += struct.pack("<QQ", len(lengths), len(lengths) + 1) + lengths.tobytes()
    index += pointers.tobytes() + numpy.arange(len(lengths) + 1, dtype="<i8").tobytes()
    prefix.with_suffix(".idx").write_bytes(index)
    prefix.with_suffix(".bin").write_bytes(joined(documents).astype("<" + dtype).tobytes())


def jsonl(path, documents):
    """Labels only where they are not the ids."""
    lines = []
    for ids, labels in documents:
        line = {"input_ids": ids.tolist()}
        if not numpy.array_equal(ids, labels):
            line["labels"] = labels.tolist()
        lines.append(json.dumps(line) + "\n")
    data = "".join(lines).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    if path.suffix == ".zst":
        data = zstandard.compress(data)
    path.write_bytes(data)


def mds_array(ids):
    """MosaicML Streaming: format/mds/encodings.py, NDArray of a fixed type and one dim."""
    width = 0 if len(ids) < 256 else 1
    return bytes([1 << 2 | width]) + struct.pack("<BH"[0] + "BH"[width], len(ids)) + ids.tobytes()


def mds(folder, documents, encoding, packed, samples_per_shard=9):
    """format/mds/writer.py: a column of text beside the ids."""
    folder.mkdir(parents=True)
    shards = []
    for first in range(0, len(documents), samples_per_shard):
        bodies = []
        for ids, _ in documents[first : first + samples_per_shard]:
            array = encoding == "ndarray:int32"
            column = mds_array(ids.astype("<i4")) if array else ids.astype("<i8").tobytes()
            text = b"some text"
            bodies.append(struct.pack("<II", len(text), len(column)) + text + column)
        config = b'{"version": 2}'
        head = 4 * (len(bodies) + 2) + len(config)
        offsets = head + numpy.cumsum([0] + [len(body) for body in bodies])
        raw = struct.pack("<I", len(bodies)) + offsets.astype("<u4").tobytes() + config
        raw += b"".join(bodies)
        name = f"shard.{len(shards):05d}.mds"
        shard = {
            "column_encodings": ["str", encoding],
            "column_names": ["source", "tokens"],
            "column_sizes": [None, None],
            "compression": None,
            "format": "mds",
            "hashes": [],
            "raw_data": {"basename": name, "bytes": len(raw), "hashes": {}},
            "samples": len(bodies),
            "size_limit": 1 << 26,
            "version": 2,
            "zip_data": None,
        }
        if packed:
            data = zstandard.compress(raw)
            name += ".zstd"
            shard["compression"] = "zstd:3"
            shard["zip_data"] = {"basename": name, "bytes": len(data), "hashes": {}}
        (folder / name).write_bytes(data if packed else raw)
        shards.append(shard)
    (folder / "index.json").write_text(json.dumps({"shards": shards, "version": 2}))


def concat_rows(documents, seq_len):
    """(tokens, labels) of every row; labels are those of the next id."""
    ids, labels = (numpy.concatenate(parts) for parts in zip(*documents))
    rows = len(ids) // (seq_len + 1)
    shape = rows, seq_len + 1
    ids, labels = (each[: rows * (seq_len + 1)].reshape(shape) for each in (ids, labels))
    return ids[:, :-1], labels[:, 1:]


def row_of(documents, seq_len):
    """One row of whole documents, of which the first ids are no targets."""
    ids = numpy.zeros(seq_len + 1, numpy.int64)
    labels = numpy.full(seq_len + 1, IGNORED)
    at = 0
    for these, targets in documents:
        ids[at : at + len(these)] = these
        labels[at + 1 : at + len(these)] = targets[1:]
        at += len(these)
    return ids[:-1], labels[1:]


def document_rows(documents, seq_len):
    rows = [
        row_of([(ids[: seq_len + 1], labels[: seq_len + 1])], seq_len)
        for ids, labels in documents
        if len(ids) > 1
    ]
    return tuple(map(numpy.stack, zip(*rows)))


def best_fit_rows(documents, seq_len):
    """Longest first, into the row with the least room that has enough."""
    rows = []
    taken = [(ids[: seq_len + 1], labels[: seq_len + 1]) for ids, labels in documents]
    for document in sorted(taken, key=lambda each: -len(each[0])):
        if len(document[0]) < 2:
            continue
        rooms = [seq_len + 1 - sum(len(ids) for ids, _ in row) for row in rows]
        fitting = [at for at, room in enumerate(rooms) if room >= len(document[0])]
        if fitting:
            rows[min(fitting, key=lambda at: rooms[at])].append(document)
        else:
            rows.append([document])
    return tuple(map(numpy.stack, zip(*(row_of(row, seq_len) for row in rows))))
