// Write model.pt with libtorch as Marius does (Model::save in nn/model.cpp): the modules of the encoder and of the
// decoder are saved into one torch::serialize::OutputArchive. Their parameters have the names that Marius gives them.
//
// Usage: model_archive OUTPUT RELATIONS DIMENSION relations.bin [inverse_relations.bin]
#include <torch/torch.h>

#include <fstream>
#include <memory>

struct EmbeddingLayer : torch::nn::Module {};

struct Encoder : torch::nn::Module {
    Encoder() { register_module("embedding:0_0", std::make_shared<EmbeddingLayer>()); }
};

struct Decoder : torch::nn::Module {
    Decoder(torch::Tensor relations, torch::Tensor inverse) {
        register_parameter("relation_embeddings", relations.set_requires_grad(true));
        if (inverse.defined()) {
            register_parameter("inverse_relation_embeddings", inverse.set_requires_grad(true));
        }
    }
};

torch::Tensor read(const char* path, int64_t rows, int64_t columns) {
    torch::Tensor table = torch::empty({rows, columns});
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(table.data_ptr<float>()), rows * columns * 4);
    return table;
}

int main(int argc, char** argv) {
    int64_t rows = std::atoi(argv[2]), columns = std::atoi(argv[3]);
    torch::Tensor inverse = argc > 5 ? read(argv[5], rows, columns) : torch::Tensor();
    torch::serialize::OutputArchive archive;
    Encoder().save(archive);
    Decoder(read(argv[4], rows, columns), inverse).save(archive);
    archive.save_to(argv[1]);
}
